"""HTTP by hand: exact bytes on a TCP or unix socket, and what comes back."""

import re
import socket
import threading


class Answer:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.status = int(lines[0].split(" ")[1])
        self.fields = [tuple(part.strip() for part in line.partition(":")[::2]) for line in lines[1:]]
        self.body = body

    def get(self, name, default=None):
        found = [value for field, value in self.fields if field.lower() == name.lower()]
        return found[0] if found else default

    def __repr__(self):
        return f"<{self.line} {self.body[:200]!r}>"


class Talk:
    """All answers on a connection; is_closed when the service ended it; rest is what was no answer."""

    def __init__(self, data, is_closed):
        self.is_closed = is_closed
        self.where = ""
        self.answers = []
        while data.startswith(b"HTTP/1.") and b"\r\n\r\n" in data:
            head, _, data = data.partition(b"\r\n\r\n")
            answer = Answer(head, b"")
            if answer.get("Transfer-Encoding") == "chunked":
                answer.body, data = split_chunks(data)
            elif answer.status >= 200 and answer.status not in (204, 304):
                n = int(answer.get("Content-Length", "0"))
                answer.body, data = data[:n], data[n:]
            self.answers.append(answer)
        self.rest = data

    @property
    def final(self):
        return [a for a in self.answers if a.status >= 200]

    @property
    def status(self):
        return self.final[0].status if self.final else None

    def __repr__(self):
        return f"<{self.where} {self.answers} closed={self.is_closed} rest={self.rest[:100]!r}>"


def split_chunks(data):
    body = b""
    while True:
        size, found, rest = data.partition(b"\r\n")
        if not found or not re.fullmatch(rb"[0-9a-fA-F]+", size):
            return body, data
        n = int(size, 16)
        if len(rest) < n + 2:
            return body + rest, b""
        body, data = body + rest[:n], rest[n + 2:]
        if n == 0:
            return body, data


def dial(service, unix=False, timeout=60, port=None):
    if unix:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        sock.connect(service.socket)
        return sock
    return socket.create_connection((service.host, port or service.port), timeout)


def read_all(sock):
    """-> (bytes, whether the other side closed)"""
    data = b""
    while True:
        try:
            piece = sock.recv(65536)
        except socket.timeout:
            return data, False
        except ConnectionResetError:
            return data, True
        if not piece:
            return data, True
        data += piece


def talk(service, data, unix=False, timeout=60, port=None):
    """Send, read to the end. A valid request among `data` should say Connection: close."""
    sock = dial(service, unix, timeout, port)
    try:
        # A refusal may come, and the connection end, before everything is sent.
        sender = threading.Thread(target=send_quietly, args=(sock, data), daemon=True)
        sender.start()
        result = Talk(*read_all(sock))
        result.where = "unix" if unix else "TCP"
        return result
    finally:
        sock.close()


def send_quietly(sock, data):
    try:
        sock.sendall(data)
    except OSError:
        pass


def request(method, target, headers=(), body=b"", version="HTTP/1.1"):
    """headers: (name, value) pairs, exactly; nothing is added."""
    lines = [f"{method} {target} {version}".encode("latin-1")]
    lines += [name.encode("latin-1") + b": " + value.encode("latin-1") for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(target, token=None, host="localhost", more=(), method="GET"):
    headers = [("Host", host)] if host is not None else []
    headers += [("Authorization", "Bearer " + token)] if token else []
    return request(method, target, headers + list(more) + [("Connection", "close")])


def post(target, token, body, more=(), host="localhost", method="POST"):
    headers = [("Host", host)] + ([("Authorization", "Bearer " + token)] if token else [])
    headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return request(method, target, headers + list(more) + [("Connection", "close")], body)
