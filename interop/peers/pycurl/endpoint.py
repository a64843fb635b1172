"""libcurl with ngtcp2, by way of pycurl, as client of the HTTP/3 test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from contract import Task  # noqa: E402

import pycurl  # noqa: E402


def transfer(task: Task, request):
    """The handle of one request, and the file that it writes."""
    file = open(request.file, "wb")
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, request.url)
    # HTTP/3 or nothing.
    handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_3ONLY)
    handle.setopt(pycurl.RESOLVE, [f"{request.host}:{request.port}:{task.address}"])
    handle.setopt(pycurl.PROXY, "")
    # All requests on one connection.
    handle.setopt(pycurl.PIPEWAIT, 1)
    handle.setopt(pycurl.FAILONERROR, True)
    handle.setopt(pycurl.WRITEDATA, file)
    if (task.certs / "ca.pem").is_file():
        handle.setopt(pycurl.CAINFO, str(task.certs / "ca.pem"))
    else:
        handle.setopt(pycurl.SSL_VERIFYPEER, 0)
        handle.setopt(pycurl.SSL_VERIFYHOST, 0)
    return handle, file


def main():
    # SSLKEYLOGFILE and QLOGDIR are read by libcurl itself.
    task = Task(client_tests=["http3"])
    multi = pycurl.CurlMulti()
    transfers = [transfer(task, request) for request in task.requests]
    for handle, _ in transfers:
        multi.add_handle(handle)
    running, failed = True, []
    while running:
        _, running = multi.perform()
        if running:
            multi.select(1.0)
        more = True
        while more:
            more, _, bad = multi.info_read()
            failed += [(handle, why) for handle, _, why in bad]
    for handle, file in transfers:
        file.close()
        if handle.getinfo(pycurl.INFO_HTTP_VERSION) != pycurl.CURL_HTTP_VERSION_3:
            failed.append((handle, "not over HTTP/3"))
    for handle, why in failed:
        print(f"pycurl: {handle.getinfo(pycurl.EFFECTIVE_URL)}: {why}", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
