"""Certificates made by the openssl command, for tests."""

import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder; its own certificate is the file `ca`."""

    def __init__(self, folder, name="authority"):
        folder.mkdir(exist_ok=True)
        self.folder, self.ca, self.key = folder, folder / f"{name}.crt", folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2,
                 "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.ca)

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", usage=""):
        """A certificate for `names` (127.0.0.1) with the subject `name`: the paths of certificate and key. `usage`: what
        alone it may be used for, such as serverAuth."""
        certificate, key, request = (self.folder / f"{name}.{suffix}" for suffix in ["crt", "key", "csr"])
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\n" + (f"extendedKeyUsage={usage}\n" if usage else ""))
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-days", 2,
                 "-extfile", extensions, "-out", certificate)
        return certificate, key
