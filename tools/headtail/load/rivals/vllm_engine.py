"""vLLM's offline engine on the processor, one thread: texts on demand.

Runs under any interpreter that has vLLM; needs nothing of Headtail. A line of JSON on standard
input, `{"prompts": [[token, ...], ...], "answer": tokens}`, gives one on standard output,
`{"cpu_s": processor seconds}`. The first line out is `{"version": ...}`, when it has loaded.
"""

import argparse
import json
import os
import sys
import time

# Read while vLLM is imported. In one process, so that its processor time is all there is.
os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="a folder as transformers saves it")
    parser.add_argument("--max-batch", type=int, required=True)
    parser.add_argument("--max-tokens", type=int, required=True, help="a text's, prompt included")
    options = parser.parse_args()
    # What vLLM prints while it works would be taken for answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    import vllm  # not before its environment

    engine = vllm.LLM(
        options.model,
        dtype="float32",
        skip_tokenizer_init=True,
        enforce_eager=True,
        enable_prefix_caching=False,
        max_num_seqs=options.max_batch,
        max_model_len=options.max_tokens,
    )
    print(json.dumps({"version": vllm.__version__}), file=answers)
    for line in sys.stdin:
        wanted = json.loads(line)
        sampling = vllm.SamplingParams(
            temperature=0,
            max_tokens=wanted["answer"],
            min_tokens=wanted["answer"],
            ignore_eos=True,
            detokenize=False,
        )
        prompts = [{"prompt_token_ids": tokens} for tokens in wanted["prompts"]]
        started_s = time.process_time()
        engine.generate(prompts, sampling, use_tqdm=False)
        print(json.dumps({"cpu_s": time.process_time() - started_s}), file=answers)


if __name__ == "__main__":
    main()
