#!/bin/bash
# Entry point of the image: sets up routes, then starts the endpoint.
set -e

/setup.sh

if [ "$ROLE" = client ]; then
    # Wait for the simulator.
    /wait-for-it.sh sim:57832 -s -t 30
fi

# shellcheck disable=SC2086
if [ "$ROLE" = client ]; then
    exec fathom-endpoint $CLIENT_PARAMS
else
    exec fathom-endpoint $SERVER_PARAMS
fi
