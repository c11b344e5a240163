"""Writes what llama.cpp's `llama-quantize` does, for the tests to compare with.

Run from the crate's folder: python3 tests/make_quantize_vectors.py LLAMA_QUANTIZE MODEL.F32.gguf...

tests/data/mixes.txt: the format of every tensor of each given model, and of the synthetic models below,
in every mix, without an importance matrix ("mix") where llama.cpp does without, and with one ("weighted").
tests/data/quantize/: weights, and the blocks that llama.cpp encodes them to; the importance of their columns, and the
blocks that it encodes them to with that.
"""

import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

MIXES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l",
         "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs", "iq3_s", "iq3_m", "mxfp4"]  # fmt: skip
# llama.cpp refuses to make these without an importance matrix.
WEIGHTED_ONLY = ["q2_k_s", "iq3_xxs", "iq3_xs", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq1_s", "iq1_m"]
# Those that change with one.
WEIGHTED = ["q4_0", "q5_0", "iq4_nl", "iq4_xs"] + WEIGHTED_ONLY
ENCODED = {"Q2_K": "q2_k", "Q3_K": "q3_k_s", "Q4_K": "q4_k_s", "Q5_K": "q5_k_s", "Q6_K": "q6_k", "IQ4_NL": "iq4_nl",
           "IQ4_XS": "iq4_xs", "IQ3_S": "iq3_s"}  # fmt: skip
ENCODED_WEIGHTED = ENCODED | {"Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q5_0", "Q5_1": "q5_1", "IQ3_XXS": "iq3_xxs",
                              "IQ2_S": "iq2_m", "IQ2_XS": "iq2_xs", "IQ2_XXS": "iq2_xxs", "IQ1_S": "iq1_s",
                              "IQ1_M": "iq1_m"}  # fmt: skip
WEIGHTS = 4096


def quantize(tool: str, model: str, mix: str, *options: str) -> gguf.GGUFReader:
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out.gguf"
        kind = {"mxfp4": "mxfp4_moe"}.get(mix, mix).upper()
        subprocess.run([tool, *options, model, out, kind], check=True, capture_output=True)
        return gguf.GGUFReader(out)


def matrix(path: str, tensors: dict[str, np.ndarray]) -> str:
    """An importance matrix with these numbers, one for each column (and expert) of a tensor."""
    writer = gguf.GGUFWriter(path, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["none"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 1)
    for name, numbers in tensors.items():
        numbers = numbers.astype(np.float32)
        writer.add_tensor(f"{name}.in_sum2", numbers)
        writer.add_tensor(f"{name}.counts", np.ones((*numbers.shape[:-1], 1), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def ones(path: str, reader: gguf.GGUFReader) -> str:
    """An importance matrix that knows every tensor of a model."""
    shapes = {tensor.name: [int(n) for n in tensor.shape] for tensor in reader.tensors}
    columns = {name: np.ones((*shape[2:], shape[0])) for name, shape in shapes.items() if len(shape) > 1}
    return matrix(path, columns)


def synthesise(path: str, layers: int, width: int, heads: int, kv_heads: int, experts: int, tied: bool) -> None:
    """A llama model of zeros with the tensors that mixes treat differently."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(32)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)

    def tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, np.zeros(shape, dtype=np.float32))

    tensor("token_embd.weight", 32, width)
    if not tied:
        tensor("output.weight", 32, width)
    tensor("output_norm.weight", width)
    for layer in range(layers):
        for name in ["attn_k", "attn_v", "attn_output"]:
            tensor(f"blk.{layer}.{name}.weight", 2, width)
        if experts:
            tensor(f"blk.{layer}.ffn_gate_inp.weight", experts, width)
            tensor(f"blk.{layer}.ffn_down_exps.weight", experts, 2, width)
        else:
            tensor(f"blk.{layer}.ffn_down.weight", 2, width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def facts(reader: gguf.GGUFReader) -> str:
    arch = reader.fields["general.architecture"].contents()

    def number(key: str, default: int) -> int:
        field = reader.fields.get(f"{arch}.{key}")
        return field.contents() if field else default

    heads = number("attention.head_count", 0)
    return (f"layers={number('block_count', 0)} heads={heads} "
            f"kv_heads={number('attention.head_count_kv', heads)} experts={number('expert_count', 0)}")  # fmt: skip


def mixes(tool: str, models: list[str]) -> None:
    with open("tests/data/mixes.txt", "w") as out, tempfile.TemporaryDirectory() as folder:
        for name, arguments in {
            "deep": (32, 256, 8, 2, 0, True),
            "odd-width": (16, 288, 6, 6, 0, False),
            "odder-width": (4, 40, 4, 4, 0, True),
            "eight-experts": (8, 256, 8, 8, 8, False),
            "seventy-billion": (80, 256, 64, 8, 0, False),
        }.items():
            synthesise(f"{folder}/{name}.gguf", *arguments)
            models = models + [f"{folder}/{name}.gguf"]
        for model in models:
            reader = gguf.GGUFReader(model)
            out.write(f"model {os.path.basename(model).split('.')[0]} {facts(reader)}\n")
            for tensor in reader.tensors:
                out.write(f"tensor {tensor.name} {' '.join(str(n) for n in tensor.shape)}\n")
            weighing = ["--imatrix", ones(f"{folder}/imatrix.gguf", reader)]
            for kind, mix, options in [("mix", mix, []) for mix in MIXES] + [("weighted", mix, weighing) for mix in WEIGHTED]:
                quantized = quantize(tool, model, mix, *options)
                formats = {tensor.name: tensor.tensor_type.name for tensor in quantized.tensors}
                file_type = quantized.fields["general.file_type"].contents()
                chosen = " ".join(formats[tensor.name] for tensor in reader.tensors)
                out.write(f"{kind} {mix} {file_type} {chosen}\n")


def blocks(tool: str, model: str) -> None:
    """Real weights are heavier in the tails than a normal distribution: Student's t with 5 degrees."""
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.gguf"
        with open(model, "rb") as source, open(path, "wb") as target:
            target.write(source.read())
        reader = gguf.GGUFReader(path, "r+")
        tensor = next(tensor for tensor in reader.tensors if tensor.name == "blk.0.attn_output.weight")
        values = (rng.standard_t(5, tensor.data.size) * 0.02).astype(np.float32)
        tensor.data.reshape(-1)[:] = values
        tensor.data.flush()
        os.makedirs("tests/data/quantize", exist_ok=True)
        values[:WEIGHTS].tofile("tests/data/quantize/weights.f32")
        # Most columns are alike, a few a hundred times as important.
        columns = int(tensor.shape[0])
        importance = np.exp(rng.standard_normal(columns)) * np.where(rng.random(columns) < 0.02, 100, 1)
        importance.astype(np.float32).tofile("tests/data/quantize/importance.f32")
        known = {other.name: np.ones(int(other.shape[0])) for other in reader.tensors if len(other.shape) > 1}
        known[tensor.name] = importance
        weighing = ["--imatrix", matrix(f"{folder}/imatrix.gguf", known)]
        for ending, encoded, options in [("blocks", ENCODED, []), ("weighted.blocks", ENCODED_WEIGHTED, weighing)]:
            for name, mix in encoded.items():
                quantized = quantize(tool, path, mix, "--pure", *options)
                tensor = next(tensor for tensor in quantized.tensors if tensor.name == "blk.0.attn_output.weight")
                assert tensor.tensor_type.name == name
                block_len, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
                blocks = tensor.data.reshape(-1)[: WEIGHTS // block_len * block_bytes]
                blocks.tofile(f"tests/data/quantize/{name}.{ending}")


def main() -> None:
    tool, models = sys.argv[1], sys.argv[2:]
    mixes(tool, models)
    blocks(tool, models[0])


main()
