#!/usr/bin/env python3
"""Tiny checkpoint folders, what llama.cpp's converter makes of them, and what transformers computes with them.

    make.py LLAMA_CPP [NAME ...]

LLAMA_CPP is a checkout of llama.cpp, whose `conversion` package is run. Needs torch, transformers, tokenizers,
sentencepiece and tiktoken. Writes data/NAME.json for each family of families.py, and data/vocabularies/*.json.

Weights are a formula of their names (`value` below, and in folders.rs), so that a folder is its configuration and the
names, types and shapes of its tensors: tests write it themselves.
"""
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from families import DENSE, FAMILIES, OLDER_KEYS, POOLED, RENAMED, TRANSPOSED

HERE = Path(__file__).parent
DATA = HERE / "data"
TEXT = HERE.parents[2] / "tests/golden/moby_120k.txt"
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
TOKENS = [(7 * i * i + 11 * i + 3) % 300 for i in range(40)]
POSITIONS = [5, 39]
TEXTS = ["Call me Ishmael.", "  Some years ago -- never mind how long precisely -- 1851!", "naïve café\n\n\tthe whale's 42 fins",
         "日本語 and 😀", ""]


def value(name: str, count: int) -> np.ndarray:
    """`count` weights of a tensor: small multiples of a power of two, which every type holds exactly."""
    start = np.uint32(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))
    with np.errstate(over="ignore"):
        x = start + np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x85EBCA77)
        x ^= x >> np.uint32(13)
    if name.endswith("act_fn.eps"):
        return np.zeros(count, dtype=np.float32)
    steps = (x % np.uint32(127)).astype(np.float32) - 63
    return 1 + steps / 128 if "norm" in name or ".ln_" in name else steps / 256


def bpe(folder: Path) -> None:
    """Byte-level BPE with the words of Qwen 2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([str(TEXT)], trainers.BpeTrainer(
        vocab_size=330, show_progress=False, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "[gMASK]", "<|observation|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("▁wide", normalized=True)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|im_end|>", pad_token="<|endoftext|>",
        chat_template=TEMPLATE)
    fast.save_pretrained(folder)


def spm(folder: Path) -> None:
    """SentencePiece's BPE with a token for every byte, as Llama 2, Gemma and Phi 3 have."""
    with tempfile.TemporaryDirectory() as scratch:
        sentencepiece.SentencePieceTrainer.train(
            input=str(TEXT), model_prefix=f"{scratch}/m", vocab_size=390, model_type="bpe", byte_fallback=True,
            character_coverage=0.98, pad_id=-1, user_defined_symbols=["<|tool|>"], minloglevel=2,
            num_threads=1, normalization_rule_name="identity", remove_extra_whitespaces=False, input_sentence_size=500, shuffle_input_sentence=False)
        shutil.copy(f"{scratch}/m.model", folder / "tokenizer.model")
    decoder = {"0": ("<unk>", True), "1": ("<s>", True), "2": ("</s>", True), "390": ("<|turn|>", True), "391": ("▁<wide>", False)}
    config = {
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "add_bos_token": True, "add_eos_token": False, "chat_template": TEMPLATE, "legacy": False,
        "added_tokens_decoder": {id: dict(content=text, lstrip=False, normalized=False, rstrip=False, single_word=False,
                                          special=special) for id, (text, special) in decoder.items()},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def spm_json(folder: Path) -> None:
    """The same as a tokenizer.json alone: what transformers makes of it."""
    spm(folder)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    words = [pieces.id_to_piece(i) for i in range(pieces.vocab_size())]
    vocabulary = {word: i for i, word in enumerate(words)}
    merges = []
    for i, word in enumerate(words):
        if not pieces.is_byte(i) and not pieces.is_control(i) and not pieces.is_unknown(i) and word != "<|tool|>":
            pairs = [(word[:k], word[k:]) for k in range(1, len(word))]
            pairs = [pair for pair in pairs if all(part in vocabulary for part in pair)]
            merges += sorted(((-pieces.get_score(i), pair) for pair in pairs), key=lambda m: [vocabulary[p] for p in m[1]])
    merges = [pair for _, pair in sorted(merges, key=lambda m: m[0])]
    (folder / "tokenizer.model").unlink()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("<|tool|>", normalized=False)])
    from tokenizers import normalizers, processors
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))


def gemma4(folder: Path) -> None:
    """Merges of characters, where a space is one: nothing is put in front of a text, and every token is in the table."""
    spm_json(folder)
    written = json.loads((folder / "tokenizer.json").read_text())
    vocabulary, added = written["model"]["vocab"], written["added_tokens"]
    for text in ["<|turn>", "<|tool_call>"]:
        vocabulary[text] = len(vocabulary)
        added.append(added[0] | {"id": vocabulary[text], "content": text})
    for number in range(len(vocabulary), 400):
        vocabulary[f"<unused{number}>"] = number
    written["added_tokens"] = [token for token in added if token["special"]]
    written["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["added_tokens_decoder"], config["legacy"]
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "extra_special_tokens": ["<|turn>", "<|tool_call>"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def wordpiece(folder: Path) -> None:
    """BERT's: lower-cased words in pieces."""
    from tokenizers import normalizers, processors
    # Letters and the words and ends that are most frequent: the trainer's choice changes from run to run.
    words = Counter(re.findall(r"[a-z]+|[^a-z\s]", TEXT.read_text().lower()))
    ends = Counter({f"##{word[-length:]}": 0 for word in words for length in (2, 3) if len(word) > length})
    for word, count in words.items():
        for length in (2, 3):
            if len(word) > length:
                ends[f"##{word[-length:]}"] += count
    most = lambda counted: [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))]
    letters = sorted({letter for word in words for letter in word})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    listed = dict.fromkeys(special + letters + [f"##{letter}" for letter in letters] + most(ends)[:80] + most(words)[:200])
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(list(listed)[:360])}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]",
        mask_token="[MASK]", do_lower_case=True).save_pretrained(folder)


def unigram(folder: Path) -> None:
    """SentencePiece's Unigram in tokenizer.json, as XLM-RoBERTa has it, with a few rules of what letters become."""
    from base64 import b64encode
    from sentencepiece import sentencepiece_model_pb2
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "rules.tsv").write_text("E9\t65\nEF\t69\nA0\t20\nA\t20\nD\t20\n9\t20\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(TEXT), model_prefix=f"{scratch}/m", vocab_size=380, model_type="unigram", character_coverage=0.98,
            minloglevel=2, num_threads=1, normalization_rule_tsv=f"{scratch}/rules.tsv", input_sentence_size=500,
            shuffle_input_sentence=False)
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(Path(f"{scratch}/m.model").read_bytes())
    pieces = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    pieces += [[piece.piece, round(piece.score, 4)] for piece in model.pieces[3:]] + [["<mask>", 0.0]]
    added = [dict(id=number, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for number, (text, _) in enumerate(pieces) if text in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    around = lambda *parts: [{"SpecialToken" if part[0] == "<" else "Sequence": {"id": part, "type_id": 0}} for part in parts]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": b64encode(model.normalizer_spec.precompiled_charsmap).decode()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]},
        "post_processor": {"type": "TemplateProcessing", "single": around("<s>", "A", "</s>"),
                           "pair": around("<s>", "A", "</s>", "</s>", "B", "</s>"),
                           "special_tokens": {text: {"id": text, "ids": [number], "tokens": [text]} for text, number in (("<s>", 0), ("</s>", 2))}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": False}}, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>",
        "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>", "add_prefix_space": True,
        "clean_up_tokenization_spaces": True}))


def ranks() -> dict[bytes, int]:
    """The bytes, then what merges make of them, by rank: as tiktoken has them."""
    with tempfile.TemporaryDirectory() as folder:
        bpe(Path(folder))
        merges = json.loads(Path(folder, "tokenizer.json").read_text())["model"]["merges"]
    plain = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174]
    others = [byte for byte in range(256) if byte not in plain]
    alphabet = {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}
    merged = [bytes(alphabet[letter] for letter in "".join(pair)) for pair in merges]
    return {token: rank for rank, token in enumerate([bytes([byte]) for byte in range(256)] + merged)}


def write_ranks(path: Path) -> None:
    from base64 import b64encode
    path.write_bytes(b"".join(b64encode(token) + b" %d\n" % rank for token, rank in ranks().items()))


def kimi(folder: Path) -> None:
    """Kimi's: ranks, and a few names of the tokens after them."""
    write_ranks(folder / "tiktoken.model")
    first = len(ranks())
    names = {first: "[BOS]", first + 1: "[EOS]", first + 2: "<|im_end|>", first + 3: "<|im_user|>", first + 5: "<tool>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "<|im_end|>", "chat_template": TEMPLATE,
        "added_tokens_decoder": {str(number): dict(content=name, special=name != "<tool>") for number, name in names.items()}}))


def hunyuan(folder: Path) -> None:
    """Hunyuan's: ranks, and tokens after them that only its tokenizer's code names."""
    write_ranks(folder / "hy.tiktoken")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "HYTokenizer", "eos_token": "<|eos|>", "pad_token": "<|pad|>", "chat_template": TEMPLATE}))


# How they cut texts into words, by file: as the code of the tokenizers has it.
WORDS = {"hy.tiktoken": QWEN2, "tiktoken.model": "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])}


def stand_in(folder: Path, size: int):
    """What the converter asks of the tokenizers of such folders, whose code is not at hand."""
    from types import SimpleNamespace
    known = ranks()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    if (folder / "hy.tiktoken").exists():
        named = ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"] + [f"<|extra_{i}|>" for i in range(205)]
        special = {text: len(known) + place for place, text in enumerate(named)}
    else:
        names = {int(number): added["content"] for number, added in config["added_tokens_decoder"].items()}
        special = {names.get(number, f"<|reserved_token_{number}|>"): number for number in range(len(known), len(known) + 258)}
    return SimpleNamespace(mergeable_ranks=known, model=SimpleNamespace(_mergeable_ranks=known), special_tokens=special,
                           vocab_size=size, eos_id=special[config["eos_token"]])


def encode(folder: Path, text: str) -> list[int]:
    """The tokens of a text, by those who made the tokenizer, without any around it."""
    for file, words in WORDS.items():
        if (folder / file).exists():
            import tiktoken
            return tiktoken.Encoding("ranks", pat_str=words, mergeable_ranks=ranks(), special_tokens={}).encode_ordinary(text)
    model = folder / "tokenizer.model"
    if model.exists():
        return sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(text)
    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids


VOCABULARIES = {"bpe": bpe, "spm": spm, "spm-json": spm_json, "gemma4": gemma4, "wordpiece": wordpiece, "unigram": unigram,
                "kimi": kimi, "hunyuan": hunyuan}


def tensors_of(folder: Path) -> dict:
    found = {}
    for path in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*/*.safetensors")):
        module = "" if path.parent == folder else f"{path.parent.name}."
        with safe_open(path, "pt") as file:
            for name in file.keys():
                part = file.get_slice(name)
                found[module + name] = [part.get_dtype(), part.get_shape()]
    return found


def packed(weights: dict, path: Path) -> None:
    """Replaces experts by blocks of four bits, in the file and, by the values that these stand for, in `weights`."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    file = dict(weights)
    for key in [key for key in weights if key.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = weights[key].shape
        shape = (experts, outputs, inputs // 32)
        codes = torch.from_numpy(value(f"{key}_blocks", 16 * experts * outputs * inputs // 32) * 256 + 63).to(torch.uint8)
        scales = torch.from_numpy(value(f"{key}_scales", experts * outputs * inputs // 32) * 256 + 63).to(torch.uint8) % 4 + 121
        codes, scales = codes.reshape(*shape, 16), scales.reshape(shape)
        del file[key]
        file[f"{key}_blocks"], file[f"{key}_scales"] = codes, scales
        pairs = torch.stack([values[(codes & 15).long()], values[(codes >> 4).long()]], dim=-1).reshape(*shape, 32)
        whole = pairs * torch.exp2(scales.float() - 127).unsqueeze(-1)
        weights[key] = whole.reshape(experts, outputs, inputs).transpose(1, 2).contiguous()
    save_file(file, path, metadata={"format": "pt"})


def as_older(name: str, config: dict) -> dict:
    """What older versions of transformers wrote, and the converter reads."""
    return {key: value for key, value in (config | OLDER_KEYS.get(name, {})).items() if value is not ...}


def write_model(name: str, folder: Path) -> dict:
    """Writes the folder and gives its logits."""
    model_class, config_class, options, _, dtype = FAMILIES[name]
    torch.manual_seed(1)
    config = config_class(**options)
    model = model_class(config).to(TYPES[dtype])
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    named = load_file(path)
    if name in RENAMED:
        named = {key.replace(*RENAMED[name]): tensor for key, tensor in named.items()}
    named = {key: tensor.transpose(1, 2).contiguous() if key.endswith(TRANSPOSED.get(name, ())) else tensor
             for key, tensor in named.items()}
    weights = {key: torch.from_numpy(value(key, tensor.numel())).reshape(tensor.shape).to(tensor.dtype)
               for key, tensor in named.items()}
    save_file(weights, path, metadata={"format": "pt"})
    if name == "gpt-oss-mxfp4":
        packed(weights, path)
    written = as_older(name, json.loads((folder / "config.json").read_text()))
    (folder / "config.json").write_text(json.dumps(written))
    if name == "gpt-oss-mxfp4":
        # With the weights that the blocks stand for, since a CPU has no kernels for the blocks.
        model = model_class(config).to(torch.float32).eval()
        model.config._attn_implementation = "eager"
        model.load_state_dict({key: tensor.float() for key, tensor in weights.items()})
    else:
        model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        given = model(torch.tensor([TOKENS]))
    if name in POOLED:
        rows = given.last_hidden_state[0].double()
        vector = {"mean": rows.mean(0), "cls": rows[0]}[POOLED[name]]
        for module, (inputs, outputs) in DENSE.get(name, {}).items():
            vector = dense(module, inputs, outputs).double() @ vector
        return [round(x, 5) for x in vector.tolist()]
    logits = given.logits[0].double()
    return {str(position): [round(x, 5) for x in logits[position].tolist()] for position in POSITIONS}


def dense(module: str, inputs: int, outputs: int) -> torch.Tensor:
    return torch.from_numpy(value(f"{module}.linear.weight", inputs * outputs)).reshape(outputs, inputs)


def write_modules(name: str, folder: Path) -> None:
    """What sentence-transformers writes beside a model: how rows become a vector, and what becomes of that."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": POOLED[name] == "cls", "pooling_mode_mean_tokens": POOLED[name] == "mean"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    for module, (inputs, outputs) in DENSE.get(name, {}).items():
        modules.append({"idx": len(modules), "name": str(len(modules)), "path": module, "type": "sentence_transformers.models.Dense"})
        (folder / module).mkdir()
        save_file({"linear.weight": dense(module, inputs, outputs).to(TYPES[FAMILIES[name][4]])}, folder / module / "model.safetensors")
        (folder / module / "config.json").write_text(json.dumps({
            "in_features": inputs, "out_features": outputs, "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"}))
    (folder / "modules.json").write_text(json.dumps(modules))


def plain(field, gguf):
    """A metadata value with its type; long arrays as a hash of their parts."""
    kinds = [kind.name.lower() for kind in field.types]
    contents = field.contents()
    if kinds[-1] == "float32" and kinds[0] == "array":
        contents = [number if np.isfinite(number) else str(number) for number in contents]
    if kinds[0] != "array":
        return [kinds[0], contents]
    if len(contents) <= 64:
        return kinds + [contents]
    digest = hashlib.sha256()
    for part in contents:
        data = part.encode() if isinstance(part, str) else np.array(part, dtype={"float32": "<f4", "int32": "<i4", "uint8": "u1"}[kinds[1]]).tobytes()
        digest.update(len(data).to_bytes(4, "little") + data)
    return kinds + [len(contents), digest.hexdigest()[:16]]


def convert(name: str, folder: Path, out: Path, kind: str):
    import gguf
    from conversion import ModelBase, get_model_class
    from conversion.base import ModelType, TextModel, get_model_architecture
    pre = {"wordpiece": "bert-bge", "kimi": "kimi-k2", "hunyuan": "hunyuan"}.get(FAMILIES[name][3] if name in FAMILIES else "", "qwen2")
    TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    if not hasattr(ModelBase, "load_as_read"):
        ModelBase.load_as_read = ModelBase.load_hparams
    # The newest transformers reads some keys and does not hand them on.
    ModelBase.load_hparams = staticmethod(lambda *of, **named: as_older(name, ModelBase.load_as_read(*of, **named)))
    with torch.inference_mode():
        hparams = ModelBase.load_hparams(folder, False)
        model = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
        file_type = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16,
                     "BF16": gguf.LlamaFileType.MOSTLY_BF16}[kind]
        # Layers that guess further tokens are left out, where a family may have them.
        model.no_mtp = True
        if any((folder / file).exists() for file in WORDS):
            transformers.AutoTokenizer.from_pretrained = lambda *of, **named: stand_in(folder, hparams["vocab_size"])
        if name == "deepseek32":
            # The vocabulary is read from tokenizer.json, not with settings that only its folder has.
            model.set_vocab = model._set_vocab_gpt2
        model(folder, file_type, out, eager=True, sentence_transformers_dense_modules=name in DENSE).write()
    reader = gguf.GGUFReader(out)
    metadata = {key: plain(field, gguf) for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    tensors = {t.name: [t.tensor_type.name, [int(n) for n in t.shape],
                        hashlib.sha256(t.data.tobytes()).hexdigest()[:16]] for t in reader.tensors}
    return metadata, tensors


def sharded(scratch: Path) -> dict:
    """A folder just as transformers writes it, in several files, as hexadecimal digits; and what becomes of it."""
    folder = scratch / "sharded"
    config = transformers.LlamaConfig(
        vocab_size=400, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    torch.manual_seed(2)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="3KB")
    shutil.copytree(scratch / "vocabularies" / "bpe", folder, dirs_exist_ok=True)
    _, tensors = convert("sharded", folder, scratch / "sharded.gguf", "BF16")
    files = {p.name: p.read_bytes().hex() for p in sorted(folder.iterdir()) if not p.name.startswith(("tokenizer", "chat"))}
    return {"files": files, "tensors": tensors}


def lines(value: dict) -> str:
    """JSON with a line for each entry of the second level."""
    def inner(part):
        if isinstance(part, dict):
            return "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in part.items()) + "\n }"
        return json.dumps(part, ensure_ascii=False)
    return "{\n" + ",\n".join(f" {json.dumps(k)}: {inner(v)}" for k, v in value.items()) + "\n}\n"


def main() -> None:
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/gguf-py"]
    for kind in ("vocabularies", "folders"):
        (DATA / kind).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, write in VOCABULARIES.items():
            folder = Path(scratch, "vocabularies", name)
            folder.mkdir(parents=True)
            write(folder)
            ids = {text: encode(folder, text) for text in TEXTS}
            files = {p.name: p.read_bytes().hex() if p.suffix == ".model" else p.read_text() for p in sorted(folder.iterdir())}
            (DATA / "vocabularies" / f"{name}.json").write_text(lines({"files": files, "ids": ids}))
        (DATA / "folders" / "sharded.json").write_text(lines(sharded(Path(scratch))))
        for name in sys.argv[2:] or FAMILIES:
            folder = Path(scratch, "tiny")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            vocabulary, kind = FAMILIES[name][3:]
            shutil.copytree(Path(scratch, "vocabularies", vocabulary), folder, dirs_exist_ok=True)
            try:
                logits = write_model(name, folder)
                if name in POOLED:
                    write_modules(name, folder)
                metadata, tensors = convert(name, folder, Path(scratch, f"{name}.gguf"), kind)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            read = lambda file: json.loads((folder / file).read_text()) if (folder / file).exists() else None
            (DATA / f"{name}.json").write_text(lines({
                "config": read("config.json"), "generation_config": read("generation_config.json"),
                "vocabulary": vocabulary, "type": kind, "source": tensors_of(folder), "metadata": metadata,
                "tensors": tensors, "tokens": TOKENS} | ({"modules": {
                    file: read(file) for file in ["modules.json"] + [str(path.relative_to(folder)) for path in sorted(folder.glob("*/config.json"))]},
                    "vector": logits}
                    if name in POOLED else {"logits": logits})))
            print(name, len(tensors))


if __name__ == "__main__":
    main()
