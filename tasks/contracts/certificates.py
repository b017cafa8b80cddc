"""Checks of the trusted certificates in SSL_CERT_FILE. Standard library only: programs import this module first."""

import os
import ssl
import sys

BAD_SETTING = 2
UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "UnknownIssuer", "invalid peer certificate")
"""Parts of the messages of OpenSSL and rustls for a certificate that they do not trust."""


def exit_if_unreadable() -> None:
    """Exit with an error message if SSL_CERT_FILE is unreadable: HTTP clients would raise a stack trace at import."""
    file = os.environ.get("SSL_CERT_FILE")
    if not file:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:
        reason = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        sys.stderr.write(
            f"error: SSL_CERT_FILE is {file}, but that file cannot be used ({reason}), so nothing can be reached over "
            "https. Name a file of PEM certificates, or unset SSL_CERT_FILE to use the default ones.\n"
        )
        raise SystemExit(BAD_SETTING) from None


def is_untrusted(text: str) -> bool:
    """Return whether an error's text is about an untrusted certificate."""
    return any(words in text for words in UNTRUSTED)


def trusted_file() -> str:
    """Return where this process looks for trusted certificates, as a clause for an error message."""
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        return f"SSL_CERT_FILE is {file}"
    system = ssl.get_default_verify_paths().openssl_cafile
    return f"SSL_CERT_FILE is not set; the system's certificates are usually in {system}"
