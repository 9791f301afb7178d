"""Signing in on a raw connection, by SCRAM-SHA-256."""

import base64
import hashlib
import hmac
import os


def _field(text, name):
    return next(part[2:] for part in text.split(",") if part.startswith(name + "="))


def sign_in(connection, user, password):
    """Signs a user of the database admin in; raises where mongod says no."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    bare = f"n={user},r={nonce}"
    begun = connection.command("admin", {"saslStart": 1, "mechanism": "SCRAM-SHA-256",
                                         "payload": f"n,,{bare}".encode(), "options": {"skipEmptyExchange": True}})
    said = _payload(begun)
    salt, rounds = base64.b64decode(_field(said, "s")), int(_field(said, "i"))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={_field(said, 'r')}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{said},{last}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
    ended = connection.command("admin", {"saslContinue": 1, "conversationId": begun["conversationId"],
                                         "payload": f"{last},p={proof}".encode()})
    if not (ended.get("ok") and ended["done"]):
        raise PermissionError(ended)


def _payload(reply):
    if not reply.get("ok"):
        raise PermissionError(reply)
    return reply["payload"][5:].decode()  # behind its length and subtype
