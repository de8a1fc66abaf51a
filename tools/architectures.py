"""Layer tables of the sample workloads, written down from their published architectures.

Each function returns the layers of one model in forward order. A layer counts, per sample and for
the forward pass, its floating-point operations (a multiply-add is two) and the elements that it
writes; its parameter tensors stand in the order in which the model registers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer of a model.

    Attributes:
        name: the layer's name.
        flops: forward operations per sample.
        elements: elements written per sample in the forward pass.
        tensors: name and number of elements of each parameter tensor.
        fast: whether libraries run it in fewer operations (3x3 convolutions of stride 1).
    """

    name: str
    flops: float
    elements: float
    tensors: tuple[tuple[str, int], ...] = ()
    fast: bool = False

    @property
    def parameters(self) -> int:
        """Trainable parameters."""
        return sum(size for _, size in self.tensors)


class Convolutions:
    """A convolutional net under construction: the layers so far and the shape at their end.

    Args:
        channels: channels of the input.
        size: height and width of the input.
    """

    def __init__(self, channels: int, size: int | tuple[int, int]) -> None:
        self.layers: list[LayerSpec] = []
        self.channels = channels
        self.size = (size, size) if isinstance(size, int) else size

    def conv(
        self,
        name: str,
        out: int,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | None = None,
        *,
        groups: int = 1,
        bias: bool = False,
        norm: str | None = None,
    ) -> None:
        """Adds a convolution and, where `norm` names one, its batch normalisation."""
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        sh, sw = (stride, stride) if isinstance(stride, int) else stride
        if padding is None:
            ph, pw = kh // 2, kw // 2
        else:
            ph, pw = (padding, padding) if isinstance(padding, int) else padding
        height = (self.size[0] + 2 * ph - kh) // sh + 1
        width = (self.size[1] + 2 * pw - kw) // sw + 1
        weights = out * (self.channels // groups) * kh * kw
        elements = out * height * width
        tensors = [(f"{name}.weight", weights)] + ([(f"{name}.bias", out)] if bias else [])
        fast = (kh, kw, sh, sw, groups) == (3, 3, 1, 1, 1) and self.channels >= 32
        flops = 2.0 * weights * height * width
        self.layers.append(LayerSpec(name, flops, elements, tuple(tensors), fast))
        self.channels, self.size = out, (height, width)
        if norm is not None:
            self.norm(norm)

    def norm(self, name: str) -> None:
        """Adds a batch normalisation."""
        elements = self.channels * self.size[0] * self.size[1]
        tensors = ((f"{name}.weight", self.channels), (f"{name}.bias", self.channels))
        self.layers.append(LayerSpec(name, 4.0 * elements, elements, tensors))

    def pool(self, name: str, kernel: int, stride: int, padding: int = 0) -> None:
        """Adds a maximum or average pooling."""
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in self.size)
        elements = self.channels * height * width
        self.layers.append(LayerSpec(name, float(elements * kernel * kernel), elements))
        self.size = (height, width)

    def linear(self, name: str, out: int) -> None:
        """Adds a fully connected layer over all that came before."""
        features = self.channels * self.size[0] * self.size[1]
        self.layers.append(_linear(name, features, out))
        self.channels, self.size = out, (1, 1)

    def global_pool(self, name: str) -> None:
        """Averages each channel over its map."""
        self.pool(name, self.size[0], self.size[0])

    def at(self, channels: int, size: tuple[int, int]) -> None:
        """Goes back to an earlier shape: a new branch starts there."""
        self.channels, self.size = channels, size


def _linear(name: str, features: int, out: int, *, rows: int = 1, bias: bool = True) -> LayerSpec:
    tensors = [(f"{name}.weight", features * out)] + ([(f"{name}.bias", out)] if bias else [])
    return LayerSpec(name, 2.0 * rows * features * out, rows * out, tuple(tensors))


def _layer_norm(name: str, width: int, rows: int) -> LayerSpec:
    tensors = ((f"{name}.weight", width), (f"{name}.bias", width))
    return LayerSpec(name, 8.0 * rows * width, rows * width, tensors)


def resnet50() -> list[LayerSpec]:
    """ResNet-50 with the stride in the 3x3 convolution (v1.5), 224 x 224, 1000 classes."""
    net = Convolutions(3, 224)
    net.conv("conv1", 64, 7, 2, norm="bn1")
    net.pool("maxpool", 3, 2, 1)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            start = (net.channels, net.size)
            net.conv(f"{name}.conv1", width, 1, norm=f"{name}.bn1")
            net.conv(f"{name}.conv2", width, 3, stride, norm=f"{name}.bn2")
            net.conv(f"{name}.conv3", 4 * width, 1, norm=f"{name}.bn3")
            if block == 0:
                net.at(*start)
                net.conv(f"{name}.downsample.0", 4 * width, 1, stride, norm=f"{name}.downsample.1")
    net.global_pool("avgpool")
    net.linear("fc", 1000)
    return net.layers


def resnet18_cifar() -> list[LayerSpec]:
    """ResNet-18 for 32 x 32 images: a 3x3 stem without pooling, 10 classes."""
    net = Convolutions(3, 32)
    net.conv("conv1", 64, 3, norm="bn1")
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            start = (net.channels, net.size)
            net.conv(f"{name}.conv1", width, 3, stride, norm=f"{name}.bn1")
            net.conv(f"{name}.conv2", width, 3, norm=f"{name}.bn2")
            if stride != 1:
                net.at(*start)
                net.conv(f"{name}.shortcut.0", width, 1, stride, norm=f"{name}.shortcut.1")
    net.global_pool("avgpool")
    net.linear("linear", 10)
    return net.layers


def vgg16_bn() -> list[LayerSpec]:
    """VGG-16 with batch normalisation, 224 x 224, 1000 classes."""
    net = Convolutions(3, 224)
    index = 0
    for width, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            net.conv(f"features.{index}", width, 3, bias=True, norm=f"features.{index + 1}")
            index += 3
        net.pool(f"features.{index}", 2, 2)
        index += 1
    for position, width in ((0, 4096), (3, 4096), (6, 1000)):
        net.linear(f"classifier.{position}", width)
    return net.layers


def alexnet() -> list[LayerSpec]:
    """AlexNet in its one-tower form, 224 x 224, 1000 classes."""
    net = Convolutions(3, 224)
    net.conv("features.0", 64, 11, 4, 2, bias=True)
    net.pool("features.2", 3, 2)
    net.conv("features.3", 192, 5, bias=True)
    net.pool("features.5", 3, 2)
    net.conv("features.6", 384, 3, bias=True)
    net.conv("features.8", 256, 3, bias=True)
    net.conv("features.10", 256, 3, bias=True)
    net.pool("features.12", 3, 2)
    for position, width in ((1, 4096), (4, 4096), (6, 1000)):
        net.linear(f"classifier.{position}", width)
    return net.layers


# One inception block: a list of branches, each a list of (channels, kernel, stride, padding).
_Branch = list[tuple[int, int | tuple[int, int], int, int | tuple[int, int] | None]]


def _inception_block(net: Convolutions, name: str, branches: list[_Branch], pooled: int) -> None:
    start = (net.channels, net.size)
    total = pooled
    end = net.size
    for number, branch in enumerate(branches):
        net.at(*start)
        for step, (out, kernel, stride, padding) in enumerate(branch):
            layer = f"{name}.branch{number}.{step}"
            net.conv(f"{layer}.conv", out, kernel, stride, padding, norm=f"{layer}.bn")
        total += net.channels
        end = net.size
    net.at(total, end)


def inception_v3() -> list[LayerSpec]:
    """Inception v3 without the auxiliary classifier, 299 x 299, 1000 classes."""
    net = Convolutions(3, 299)
    net.conv("stem.0.conv", 32, 3, 2, 0, norm="stem.0.bn")
    net.conv("stem.1.conv", 32, 3, 1, 0, norm="stem.1.bn")
    net.conv("stem.2.conv", 64, 3, norm="stem.2.bn")
    net.pool("stem.pool1", 3, 2)
    net.conv("stem.3.conv", 80, 1, norm="stem.3.bn")
    net.conv("stem.4.conv", 192, 3, 1, 0, norm="stem.4.bn")
    net.pool("stem.pool2", 3, 2)
    for number, pooled in enumerate((32, 64, 64)):
        branches: list[_Branch] = [
            [(64, 1, 1, None)],
            [(48, 1, 1, None), (64, 5, 1, None)],
            [(64, 1, 1, None), (96, 3, 1, None), (96, 3, 1, None)],
            [(pooled, 1, 1, None)],
        ]
        _inception_block(net, f"mixed_a{number}", branches, 0)
    reduced: list[_Branch] = [
        [(384, 3, 2, 0)],
        [(64, 1, 1, None), (96, 3, 1, None), (96, 3, 2, 0)],
    ]
    _inception_block(net, "mixed_b", reduced, net.channels)
    for number, width in enumerate((128, 160, 160, 192)):
        branches = [
            [(192, 1, 1, None)],
            [(width, 1, 1, None), (width, (1, 7), 1, None), (192, (7, 1), 1, None)],
            [
                (width, 1, 1, None),
                (width, (7, 1), 1, None),
                (width, (1, 7), 1, None),
                (width, (7, 1), 1, None),
                (192, (1, 7), 1, None),
            ],
            [(192, 1, 1, None)],
        ]
        _inception_block(net, f"mixed_c{number}", branches, 0)
    reduced = [
        [(192, 1, 1, None), (320, 3, 2, 0)],
        [(192, 1, 1, None), (192, (1, 7), 1, None), (192, (7, 1), 1, None), (192, 3, 2, 0)],
    ]
    _inception_block(net, "mixed_d", reduced, net.channels)
    for number in range(2):
        _inception_fan_block(net, f"mixed_e{number}")
    net.global_pool("avgpool")
    net.linear("fc", 1000)
    return net.layers


def _inception_fan_block(net: Convolutions, name: str) -> None:
    """The last two blocks, in which two branches fan out into a 1x3 and a 3x1 convolution."""
    start = (net.channels, net.size)
    net.conv(f"{name}.branch0.conv", 320, 1, norm=f"{name}.branch0.bn")
    for number, stem in ((1, [(384, 1)]), (2, [(448, 1), (384, 3)])):
        net.at(*start)
        for step, (out, kernel) in enumerate(stem):
            layer = f"{name}.branch{number}.{step}"
            net.conv(f"{layer}.conv", out, kernel, norm=f"{layer}.bn")
        fan = (net.channels, net.size)
        for letter, shape in (("a", (1, 3)), ("b", (3, 1))):
            net.at(*fan)
            layer = f"{name}.branch{number}.{letter}"
            net.conv(f"{layer}.conv", 384, shape, norm=f"{layer}.bn")
    net.at(*start)
    net.conv(f"{name}.branch3.conv", 192, 1, norm=f"{name}.branch3.bn")
    net.at(320 + 2 * 768 + 192, net.size)


def shufflenet_v2() -> list[LayerSpec]:
    """ShuffleNet v2 x1.0, 224 x 224, 1000 classes."""
    net = Convolutions(3, 224)
    net.conv("conv1.0", 24, 3, 2, norm="conv1.1")
    net.pool("maxpool", 3, 2, 1)
    for stage, (out, blocks) in enumerate(((116, 4), (232, 8), (464, 4)), start=2):
        half = out // 2
        for block in range(blocks):
            name = f"stage{stage}.{block}"
            stride = 2 if block == 0 else 1
            start = (net.channels, net.size)
            if stride == 2:
                net.conv(
                    f"{name}.branch1.0", start[0], 3, 2, groups=start[0], norm=f"{name}.branch1.1"
                )
                net.conv(f"{name}.branch1.2", half, 1, norm=f"{name}.branch1.3")
                net.at(*start)
            else:
                net.at(half, start[1])
            net.conv(f"{name}.branch2.0", half, 1, norm=f"{name}.branch2.1")
            net.conv(f"{name}.branch2.3", half, 3, stride, groups=half, norm=f"{name}.branch2.4")
            net.conv(f"{name}.branch2.5", half, 1, norm=f"{name}.branch2.6")
            net.at(out, net.size)
    net.conv("conv5.0", 1024, 1, norm="conv5.1")
    net.global_pool("mean")
    net.linear("fc", 1000)
    return net.layers


def yolov3() -> list[LayerSpec]:
    """YOLOv3 on Darknet-53, 448 x 448, 20 classes (Pascal VOC), three scales."""
    net = Convolutions(3, 448)

    def block(name: str, out: int, kernel: int, stride: int = 1) -> None:
        net.conv(f"{name}.conv", out, kernel, stride, norm=f"{name}.bn")

    block("backbone.stem", 32, 3)
    kept: list[tuple[int, tuple[int, int]]] = []
    for stage, (width, repeats) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))):
        block(f"backbone.{stage}.down", width, 3, 2)
        for repeat in range(repeats):
            block(f"backbone.{stage}.{repeat}.0", width // 2, 1)
            block(f"backbone.{stage}.{repeat}.1", width, 3)
        kept.append((net.channels, net.size))
    for scale, width in enumerate((512, 256, 128)):
        if scale:
            block(f"neck.{scale}.up", width, 1)
            channels, size = kept[-1 - scale]
            net.at(channels + width, size)
        for step in range(5):
            block(f"neck.{scale}.{step}", width if step % 2 == 0 else 2 * width, 1 + 2 * (step % 2))
        branch = (net.channels, net.size)
        block(f"head.{scale}.0", 2 * width, 3)
        net.conv(f"head.{scale}.1", 3 * (5 + 20), 1, bias=True)
        net.at(*branch)
    return net.layers


def deepspeech2() -> list[LayerSpec]:
    """DeepSpeech 2: two convolutions, 5 bidirectional GRU layers of 800, 4 s of speech."""
    hidden, frames = 800, 401
    net = Convolutions(1, (161, frames))
    net.conv("conv.0", 32, (41, 11), (2, 2), (20, 5), bias=True, norm="conv.1")
    net.conv("conv.3", 32, (21, 11), (2, 1), (10, 5), bias=True, norm="conv.4")
    layers = net.layers
    steps = net.size[1]
    features = net.channels * net.size[0]
    for number in range(5):
        name = f"rnns.{number}"
        if number:
            layers.append(
                LayerSpec(
                    f"{name}.batch_norm",
                    4.0 * steps * hidden,
                    steps * hidden,
                    (
                        (f"{name}.batch_norm.weight", hidden),
                        (f"{name}.batch_norm.bias", hidden),
                    ),
                )
            )
        tensors = tuple(
            (f"{name}.rnn.{kind}{suffix}", size)
            for suffix in ("", "_reverse")
            for kind, size in (
                ("weight_ih", 3 * hidden * features),
                ("weight_hh", 3 * hidden * hidden),
                ("bias_ih", 3 * hidden),
                ("bias_hh", 3 * hidden),
            )
        )
        flops = 2.0 * steps * 2 * 3 * hidden * (features + hidden)
        layers.append(LayerSpec(f"{name}.rnn", flops, 2 * 5 * steps * hidden, tensors))
        features = hidden
    layers.append(
        LayerSpec(
            "fc.norm",
            4.0 * steps * hidden,
            steps * hidden,
            (("fc.norm.weight", hidden), ("fc.norm.bias", hidden)),
        )
    )
    layers.append(_linear("fc.linear", hidden, 29, rows=steps, bias=False))
    return layers


def neumf() -> list[LayerSpec]:
    """NeuMF on MovieLens-1M: 6040 users, 3706 items, 32 factors, a 3-layer perceptron."""
    users, items, factors = 6040, 3706, 32
    layers = [
        LayerSpec(name, 0.0, width, ((f"{name}.weight", rows * width),))
        for name, rows, width in (
            ("embed_user_gmf", users, factors),
            ("embed_item_gmf", items, factors),
            ("embed_user_mlp", users, 4 * factors),
            ("embed_item_mlp", items, 4 * factors),
        )
    ]
    for number in range(3):
        width = 8 * factors >> number
        layers.append(_linear(f"mlp.{number}", width, width // 2))
    layers.append(_linear("predict", 2 * factors, 1))
    return layers


def dlrm_small() -> list[LayerSpec]:
    """A DLRM small enough for data parallelism: 26 tables of 150,000 rows of 16."""
    tables, rows, width = 26, 150_000, 16
    layers = [
        LayerSpec(
            f"embedding.{number}", 0.0, width, ((f"embedding.{number}.weight", rows * width),)
        )
        for number in range(tables)
    ]
    sizes = (13, 512, 256, 64, width)
    layers += [
        _linear(f"bottom.{number}", before, after)
        for number, (before, after) in enumerate(pairwise(sizes))
    ]
    vectors = tables + 1
    pairs = vectors * (vectors - 1) // 2
    layers.append(LayerSpec("interaction", 2.0 * vectors * vectors * width, pairs + width))
    sizes = (pairs + width, 512, 256, 1)
    layers += [
        _linear(f"top.{number}", before, after)
        for number, (before, after) in enumerate(pairwise(sizes))
    ]
    return layers


def _transformer_block(
    name: str, hidden: int, heads: int, inner: int, tokens: int
) -> list[LayerSpec]:
    """One block: self-attention and a two-layer perceptron, each with its layer norm."""
    attention_elements = 3 * heads * tokens * tokens + tokens * hidden
    return [
        _linear(f"{name}.attention.query", hidden, hidden, rows=tokens),
        _linear(f"{name}.attention.key", hidden, hidden, rows=tokens),
        _linear(f"{name}.attention.value", hidden, hidden, rows=tokens),
        LayerSpec(f"{name}.attention.scores", 4.0 * tokens * tokens * hidden, attention_elements),
        _linear(f"{name}.attention.output", hidden, hidden, rows=tokens),
        _layer_norm(f"{name}.attention.norm", hidden, tokens),
        _linear(f"{name}.inner", hidden, inner, rows=tokens),
        LayerSpec(f"{name}.activation", 8.0 * tokens * inner, tokens * inner),
        _linear(f"{name}.output", inner, hidden, rows=tokens),
        _layer_norm(f"{name}.norm", hidden, tokens),
    ]


def bert_base() -> list[LayerSpec]:
    """BERT-base with a question-answering head and no pooler, sequences of 384 tokens."""
    hidden, tokens = 768, 384
    layers = [
        LayerSpec(
            "embeddings",
            2.0 * tokens * hidden,
            3 * tokens * hidden,
            (
                ("embeddings.word.weight", 30_522 * hidden),
                ("embeddings.position.weight", 512 * hidden),
                ("embeddings.type.weight", 2 * hidden),
            ),
        ),
        _layer_norm("embeddings.norm", hidden, tokens),
    ]
    for number in range(12):
        layers += _transformer_block(f"layer.{number}", hidden, 12, 4 * hidden, tokens)
    layers.append(_linear("qa_outputs", hidden, 2, rows=tokens))
    return layers


def xlm(hidden: int, blocks: int, heads: int, vocabulary: int, tokens: int) -> list[LayerSpec]:
    """A cross-lingual masked language model; the output layer shares the word embedding."""
    layers = [
        LayerSpec(
            "embeddings",
            2.0 * tokens * hidden,
            2 * tokens * hidden,
            (
                ("embeddings.word.weight", vocabulary * hidden),
                ("embeddings.position.weight", 512 * hidden),
            ),
        ),
        _layer_norm("embeddings.norm", hidden, tokens),
    ]
    for number in range(blocks):
        layers += _transformer_block(f"layer.{number}", hidden, heads, 4 * hidden, tokens)
    # Only the masked tokens (15 %) pass through the output layer.
    masked = round(0.15 * tokens)
    layers.append(
        LayerSpec(
            "prediction",
            2.0 * masked * hidden * vocabulary,
            2 * masked * vocabulary,
            (("prediction.bias", vocabulary),),
        )
    )
    return layers


def opt_350m() -> list[LayerSpec]:
    """OPT-350M, sequences of 2048 tokens; the output layer shares the word embedding."""
    hidden, narrow, tokens, vocabulary = 1024, 512, 2048, 50_272
    layers = [
        LayerSpec(
            "embeddings",
            1.0 * tokens * hidden,
            tokens * (hidden + narrow),
            (
                ("embeddings.word.weight", vocabulary * narrow),
                ("embeddings.position.weight", 2050 * hidden),
            ),
        ),
        _linear("project_in", narrow, hidden, rows=tokens, bias=False),
    ]
    for number in range(24):
        layers += _transformer_block(f"layer.{number}", hidden, 16, 4 * hidden, tokens)
    layers.append(_linear("project_out", hidden, narrow, rows=tokens, bias=False))
    layers.append(LayerSpec("lm_head", 2.0 * tokens * narrow * vocabulary, 2 * tokens * vocabulary))
    return layers
