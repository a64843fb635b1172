#!/bin/bash
# The runner's image starts this: routes first, then the endpoint.
set -e

/setup.sh

if [ "$ROLE" = client ]; then
    # Until the simulator is up.
    /wait-for-it.sh sim:57832 -s -t 30
fi

# shellcheck disable=SC2086
if [ "$ROLE" = client ]; then
    exec fathom-endpoint $CLIENT_PARAMS
else
    exec fathom-endpoint $SERVER_PARAMS
fi
