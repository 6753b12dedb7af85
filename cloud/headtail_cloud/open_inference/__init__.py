"""The Open Inference Protocol (version 2, HTTP), with the binary tensor data extension.

Values in, values out: no server, no network. github.com/kserve/open-inference-protocol has the
specification; the extension is Triton's. One tensor crosses a cut, so a request has one input.

An input may come in one of the bundle's codecs: with the parameters `codec` and, for a quantising
one, `quantiser` beside `binary_data_size`, the binary data are the encoded payload.
"""
