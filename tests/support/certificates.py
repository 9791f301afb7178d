"""A certificate authority of a test, and what it signs: PEM files in one folder."""

import subprocess

from support.process import new_folder, remove_folder

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
HERE = "IP:127.0.0.1,IP:::1,DNS:localhost"


class Authority:
    """Context manager; `ca` is its own certificate, `cert` and `key` those of a server on 127.0.0.1. Other
    authorities do not know it.
    """

    def __init__(self, name="authority"):
        self.folder = new_folder(name)
        self.ca = self.folder / "ca.pem"
        self.ca_key = self.folder / "ca.key"
        self._openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", self.ca_key,
                      "-out", self.ca)
        self.cert, self.key, _ = self.sign("server")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        remove_folder(self.folder)

    def sign(self, name, alternatives=HERE, days=2):
        """(certificate, key, both in one file) of this common name; a negative number of days: expired."""
        request, extension = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        cert, key, both = (self.folder / f"{name}.{kind}" for kind in ("pem", "key", "both.pem"))
        extension.write_text(f"subjectAltName={alternatives}\n")
        self._openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        key.chmod(0o600)
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca_key, "-CAcreateserial",
                      "-days", str(days), "-extfile", extension, "-out", cert)
        both.touch(mode=0o600)
        both.write_bytes(cert.read_bytes() + key.read_bytes())
        return cert, key, both

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=self.folder)
