"""A loopback server with the file and batch APIs of OpenAI, Anthropic and Google."""

import email.parser
import email.policy
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def parts_of(headers, body):
    """Return the parts of a multipart body: their headers and their content."""
    head = f"content-type: {headers['content-type']}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    return [
        (
            {name.lower(): str(value) for name, value in part.items()},
            part.get_payload(decode=True),
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
        )
        for part in message.iter_parts()
    ]


class VendorServer:
    """Answers by `answers`: method and path to a JSON value, bytes or `Steps`. `seen` has the requests."""

    def __init__(self):
        self.answers = {}
        self.seen = []
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                vendor.seen.append((self.command, self.path, headers, body))
                found = vendor.answers.get(f"{self.command} {self.path}")
                if isinstance(found, Steps):
                    found = found.next()
                status = 404 if found is None else 200
                if found is None:
                    found = {"error": {"message": f"no {self.path}, key {headers.get('authorization')}"}}
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        options = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=options, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Steps:
    """Answers one after the other; the last one repeats."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def next(self):
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values).encode()
