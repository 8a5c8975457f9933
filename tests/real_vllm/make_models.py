# mypy: ignore-errors
"""Makes the two models with random weights; runs inside the venv of the real vLLM, which has torch and transformers.

tiny starts fast and decodes in 2 ms a step; small (76M parameters) takes about 10 ms, enough for a knee at some requests/s.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SHAPES = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "small": {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
    },
}


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of about 320 tokens, trained on a few words."""
    core = Tokenizer(models.BPE(unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|system|>"]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    core.train_from_iterator(["the quick brown fox jumps over the lazy dog and then the others"] * 8, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<|bos|>", eos_token="<|eos|>", pad_token="<|eos|>")
    made.chat_template = CHAT_TEMPLATE
    return made


def main(folder: Path) -> None:
    torch.manual_seed(0)
    words = tokenizer()
    for name, shape in SHAPES.items():
        config = LlamaConfig(
            vocab_size=len(words),
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            **shape,
        )
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / name)
        words.save_pretrained(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
