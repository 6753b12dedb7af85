"""What can be wrong with a bundle. Each kind of fault has its own class; its docstring is the
advice the command line prints."""

from headtail_fabric.errors import ConfigError, ResourceError


class BundleError(ConfigError):
    """The bundle can't be used. Get it again from where it came from, or build it again."""


class NoSuchBundleError(BundleError):
    """There is no bundle of that name or at that path. `headtail bundle list` shows what is
    here, `headtail bundle build` builds one."""


class NotABundleError(BundleError):
    """What lies at that path is neither a bundle's folder nor a packed bundle. Name the folder
    that holds manifest.json, or a .headtail file."""


class MissingManifestError(BundleError):
    """The bundle has no manifest.json at its top. If you zipped the folder by hand, use
    `headtail bundle pack`."""


class InvalidManifestError(BundleError):
    """The bundle's manifest.json does not follow the schema. Don't edit it: build the bundle
    again."""


class FutureSchemaError(InvalidManifestError):
    """The bundle was made by a newer Headtail. Upgrade this one."""


class InconsistentManifestError(InvalidManifestError):
    """The parts of the bundle's manifest contradict each other. Build the bundle again; if it
    still fails, its builder has a bug."""


class MissingFileError(BundleError):
    """A file that the manifest lists is not in the bundle. Get or build the bundle again."""


class ExtraFileError(BundleError):
    """The bundle holds a file that its manifest does not list. Remove it, or build the bundle
    again if it belongs there."""


class TruncatedFileError(BundleError):
    """A file of the bundle is shorter than its manifest says: a copy or a download was cut off.
    Get the bundle again."""


class AlteredFileError(BundleError):
    """A file of the bundle is not the one that its manifest lists: it was damaged or changed.
    Get the bundle again; if it happens again, somebody changes it on the way."""


class UnsafePathError(BundleError):
    """The bundle names a file outside its own folder, or one with a name that no bundle has.
    Don't use it, and tell whoever made it."""


class LinkInBundleError(UnsafePathError):
    """The bundle holds a symbolic link or a special file. Put the file itself there."""


class DuplicateEntryError(BundleError):
    """The bundle names a file twice. Pack it again with `headtail bundle pack`."""


class OversizedBundleError(BundleError):
    """The bundle is larger than allowed, or would unpack to more than it says. Don't use it
    unless you know who made it."""


class UnsupportedArchiveError(BundleError):
    """The packed bundle uses a feature of zip that bundles don't have, such as encryption. Pack
    it again with `headtail bundle pack`."""


class DamagedArchiveError(BundleError):
    """The packed bundle can't be read to its end. Get it again."""


class BadSignatureError(BundleError):
    """The bundle's signature was not made for its manifest. Get the bundle again, or sign it
    again if you changed it yourself."""


class UnsignedBundleError(BundleError):
    """A signature is required here and the bundle has none. Sign it with `headtail bundle sign`,
    or don't require one."""


class UntrustedSignerError(BundleError):
    """The bundle is signed, but by none of the keys trusted here. If you trust the signer, add
    its public key to the trusted ones."""


class UnknownCutError(BundleError):
    """The bundle has no such cut, or no such table at it. `headtail bundle show` lists them."""


class CodecNotAllowedError(BundleError):
    """The bundle's tensor can't be sent in that codec. Choose one that `headtail bundle show`
    lists at the cut; for the cut `input`, where the picture itself is sent, jpeg or webp."""


class BadCoderError(BundleError):
    """A coding model of the bundle can't be used at its cut. Build the bundle again; if it still
    fails, its builder has a bug."""


class UnknownPointError(BundleError):
    """The bundle's exits were not calibrated for that operating point. `headtail bundle show` lists
    those there are; `off` turns the exits off."""


class NoClassThresholdsError(BundleError):
    """The bundle's exits have no thresholds by class at that operating point, which the policies
    `per-class` and `guided` need. Choose the policy `threshold`, or another bundle."""


class TargetNotEmptyError(ConfigError):
    """A bundle is only written into a new or empty folder. Name another folder, or remove the
    old one."""


class KeyFileError(ConfigError):
    """The signing key's file can't be used. See the message; `headtail bundle keys new` makes a
    key pair."""


class BundleStorageError(ResourceError):
    """The disk did not let a bundle be read or written. Check space and permissions of the path
    in the message."""
