"""Decrypts captured packets of sealed bindings with a key log, by the words of docs/protocol.md alone.

decrypt.py CAPTURE KEYLOG: the capture has a datagram in each line, in hexadecimal. Prints the data of each packet that opens.
"""

import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HEADER, KEY_PHASE, SIZED, CALL, RESULT = 32, 0x04, 0x01, 3, 4


def expand(secret, label, length=32):
    return HKDFExpand(hashes.SHA256(), length, label).derive(secret)


def data_len(header):
    """Bytes of data behind a header."""
    kind, flags = header[2], header[3]
    procedure, message, offset = struct.unpack_from("<H", header, 6)[0], *struct.unpack_from("<II", header, 20)
    if kind in (9, 10) or kind == 7 and header[28:] == b"\1\0\0\0":
        return 0
    if kind in (CALL, RESULT) and flags & SIZED:
        return offset
    if kind in (CALL, RESULT) and offset:
        return procedure
    return message - offset


def opened(packet, secrets):
    """The data of a packet, tried with the secrets of both directions in the first two phases."""
    header = packet[:HEADER]
    end = HEADER + data_len(header)
    number, tag = struct.unpack_from("<Q", packet, end)[0], packet[end + 8 : end + 24]
    for secret in secrets:
        if header[3] & KEY_PHASE:
            secret = expand(secret, b"stoop ku")
        key, mask = expand(secret, b"stoop key"), expand(secret, b"stoop iv", 12)
        nonce = bytes(m ^ n for m, n in zip(mask, bytes(4) + number.to_bytes(8, "big")))
        try:
            return AESGCM(key).decrypt(nonce, packet[HEADER:end] + tag, header)
        except InvalidTag:
            continue
    return None


with open(sys.argv[2], encoding="ascii") as log:
    lines = [line.split() for line in log if line.startswith("STOOP_SECRETS")]
known = {int(number, 16): [bytes.fromhex(secret) for secret in secrets] for _, number, *secrets in lines}
with open(sys.argv[1], encoding="ascii") as capture:
    for packet in map(bytes.fromhex, capture):
        binding = struct.unpack_from("<Q", packet, 8)[0] if len(packet) >= HEADER + 24 else 0
        data = opened(packet, known[binding]) if binding in known else None
        if data is not None:
            print(data.hex())
