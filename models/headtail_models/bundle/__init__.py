"""The bundle: the unit of deployment, that both sides of a cut agree on by its digest.

A folder, or its zip `name-version.headtail`:

    manifest.json   what it is and what each file must be (`manifest`)
    manifest.sig    who vouches for it, if anybody does (`signature`)
    full.onnx, head-<cut>.onnx, tail-<cut>.onnx    stages, at the top
    weights.bin     the weights of all stages, once: ONNX external data, found beside the stage

`open_bundle` reads and verifies, `write_bundle` makes one of a folder of files. The modules
`paths`, `content`, `folder`, `archive`, `pack` and `cache` know how bundles lie on a disk.
"""

from headtail_models.bundle.cache import BundleCache
from headtail_models.bundle.errors import BundleError
from headtail_models.bundle.keys import PublicKey, SecretKey
from headtail_models.bundle.limits import Limits
from headtail_models.bundle.reader import Bundle, open_bundle, sign_bundle
from headtail_models.bundle.writer import write_bundle

__all__ = [
    "Bundle",
    "BundleCache",
    "BundleError",
    "Limits",
    "PublicKey",
    "SecretKey",
    "open_bundle",
    "sign_bundle",
    "write_bundle",
]
