"""Trains a tiny language model with the Trainer: `FOLDER STEPS [resume]`."""

import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from hugging_face_trainer import SriftyTrainer


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        words = (index + 3 * torch.arange(8)) % 20
        # The more words have a label the larger the number: workers count differently.
        labels = words.where(torch.arange(8) < 2 + index % 7, -100)
        return {"input_ids": words, "labels": labels}


def main():
    folder, last, resume = Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=str(folder / "saved"),
        max_steps=12,
        learning_rate=0.01,
        save_steps=5,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        ignore_data_skip=True,
        disable_tqdm=True,
        max_grad_norm=0.0,
    )
    trainer = SriftyTrainer(GPT2LMHeadModel(config), arguments, train_dataset=Lines())
    if last < 12:
        from transformers import TrainerCallback

        class Stop(TrainerCallback):
            def on_step_end(self, args, state, control, **_):
                control.should_training_stop = state.global_step >= last

        trainer.add_callback(Stop())
    trainer.train(resume_from_checkpoint=resume)
    if int(os.environ.get("RANK", "0")) == 0:
        model = trainer.model
        values = torch.cat([p.detach().flatten() for p in model.parameters()])
        (folder / "out.json").write_text(json.dumps(values.tolist()))
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
