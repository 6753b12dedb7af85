"""The language model engine: networks of the Llama family, in torch, one thread a process.

gguf          reads the file that a model is published as
conversion    writes it, once, as a checkpoint that can be mapped into memory
checkpoint    an opened one: shape, weights, tokeniser
model_store   where checkpoints lie, and how they come there
network       the layers, over any mix of decodes and prompt chunks
paged_cache   their keys and values, in the scheduler's blocks
adapters      LoRA: several in one batch over one base
sampling      what a request says of how its tokens are chosen; `choice` does it
vocabulary    the seam between text and tokens; `tokeniser` is it
batching      from tasks to the tensors that the network takes
engine        all of it behind the scheduler's seam

Needs the extra `llm`, but for `shape`, `sampling` and `vocabulary`.
"""
