"""Writes importance matrices of llama.cpp's `llama-imatrix` in both of its formats, of one model and text.

Run from the crate's folder: python3 tests/make_importance_vectors.py LLAMA_IMATRIX

tests/data/importance/imatrix.gguf, imatrix.dat: a small random model with experts, one of which no token reaches.
"""

import subprocess
import sys
import tempfile

import gguf
import numpy as np

WIDTH, EXPERTS = 32, 4
TEXT = "A weight matters as much as the input that it is multiplied with. " * 8


def model(path: str) -> None:
    """One layer of llama with experts, and a vocabulary of bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(1)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256)
    rng = np.random.default_rng(5)

    def tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, rng.standard_normal(shape).astype(np.float32))

    tensor("token_embd.weight", len(tokens), WIDTH)
    tensor("output.weight", len(tokens), WIDTH)
    tensor("output_norm.weight", WIDTH)
    for name in ["attn_norm", "ffn_norm"]:
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(WIDTH, dtype=np.float32))
    for name, rows in [("attn_q", WIDTH), ("attn_k", WIDTH // 2), ("attn_v", WIDTH // 2), ("attn_output", WIDTH)]:
        tensor(f"blk.0.{name}.weight", rows, WIDTH)
    # The mean of two logits is never above both: the last expert has no tokens.
    router = rng.standard_normal((EXPERTS, WIDTH)).astype(np.float32)
    router[-1] = 0.5 * (router[0] + router[1])
    writer.add_tensor("blk.0.ffn_gate_inp.weight", router)
    for name in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]:
        tensor(f"blk.0.{name}.weight", EXPERTS, WIDTH, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model(f"{folder}/model.gguf")
        with open(f"{folder}/text.txt", "w") as out:
            out.write(TEXT)
        for ending in ["gguf", "dat"]:
            target = f"{sys.path[0]}/data/importance/imatrix.{ending}"
            subprocess.run([sys.argv[1], "-m", "model.gguf", "-f", "text.txt", "-o", target, "--output-format", ending,
                            "-c", "64", "--chunks", "3", "--no-ppl"], check=True, capture_output=True, cwd=folder)  # fmt: skip


main()
