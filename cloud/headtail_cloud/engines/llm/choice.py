"""The next token of each text.

A draw depends on the request's seed and the position alone, not on what else is in the batch, nor
on the engine: a text that moves, or is computed again, goes on as it would have.
"""

import hashlib
from typing import Final

import torch

from headtail_cloud.engines.llm.sampling import Chosen, Sampling

_HEAD: Final = 512
"""Tokens that a nucleus is looked for in first; all are sorted only where these don't hold it."""


def choose(logits: torch.Tensor, sampling: Sampling, position: int) -> Chosen:
    """`logits` (vocabulary) of the token that comes to `position`."""
    if sampling.bias:
        logits = logits.clone()
        for token, bias in sampling.bias.items():
            if 0 <= token < len(logits):
                logits[token] += bias
    if sampling.greedy:
        token = int(logits.argmax())
    else:
        token = _drawn(logits / sampling.temperature, sampling.top_p, _uniform(sampling, position))
    if sampling.alternatives is None:
        return Chosen(token=token)
    logprobs = torch.log_softmax(logits, dim=-1)
    values, tokens = logprobs.topk(sampling.alternatives)
    return Chosen(
        token=token,
        logprob=float(logprobs[token]),
        top=tuple(zip(tokens.tolist(), values.tolist(), strict=True)),
    )


def _drawn(logits: torch.Tensor, top_p: float, uniform: float) -> int:
    """Nucleus sampling (Holtzman et al., 2020): of the fewest tokens that together have `top_p`."""
    probabilities = torch.softmax(logits, dim=-1)
    if top_p == 1:
        totals = probabilities.cumsum(0)
        return min(int(torch.searchsorted(totals, uniform * totals[-1])), len(totals) - 1)
    values, tokens = probabilities.topk(min(_HEAD, len(probabilities)))
    totals = values.cumsum(0)
    if totals[-1] < top_p:
        values, tokens = probabilities.sort(descending=True)
        totals = values.cumsum(0)
    size = min(int(torch.searchsorted(totals, top_p)) + 1, len(totals))
    at = int(torch.searchsorted(totals[:size], uniform * totals[size - 1]))
    return int(tokens[min(at, size - 1)])


def _uniform(sampling: Sampling, position: int) -> float:
    """In [0, 1)."""
    key = sampling.seed.to_bytes(8, "big") + position.to_bytes(8, "big")
    return int.from_bytes(hashlib.blake2b(key, digest_size=6).digest(), "big") / 2**48
