"""X25519, HSalsa20, XSalsa20 and Poly1305 on published vectors; boxes that don't open.

From RFC 7748, 6.1 and Bernstein's "Cryptography in NaCl" (2009), sections 2 to 10.
"""

from binascii import unhexlify

from headtail_mcu import box, salsa_py
from headtail_mcu.errors import LinkError

BOB = unhexlify("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = unhexlify("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
ALICE_PUBLIC = unhexlify("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
FIRST_KEY = unhexlify("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
NONCE = unhexlify("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
MESSAGE = unhexlify(
    "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c"
    "61296cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f"
    "21af1fde048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705"
)
SEALED = unhexlify(
    "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1"
    "186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab9321645"
    "48e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b"
    "1f654cb45a74e355a5"
)


def refuses(function, *args):
    try:
        function(*args)
    except LinkError:
        return True
    return False


assert box.public_key(BOB) == BOB_PUBLIC
assert box.shared_key(BOB, ALICE_PUBLIC) == FIRST_KEY
assert refuses(box.shared_key, BOB, bytes(32))
for words in (box.salsa, salsa_py):
    box.salsa = words
    assert box.seal(FIRST_KEY, NONCE, MESSAGE) == SEALED
    assert box.unseal(FIRST_KEY, NONCE, SEALED) == MESSAGE
    assert box.unseal(FIRST_KEY, NONCE, box.seal(FIRST_KEY, NONCE, b"")) == b""
    assert refuses(box.unseal, FIRST_KEY, NONCE, SEALED[:-1])
    assert refuses(box.unseal, FIRST_KEY, NONCE, SEALED[:15])
    assert refuses(box.unseal, FIRST_KEY, NONCE, SEALED[:40] + b"\x00" + SEALED[41:])
    assert refuses(box.unseal, FIRST_KEY, NONCE[:-1] + b"\x00", SEALED)
print("passed")
