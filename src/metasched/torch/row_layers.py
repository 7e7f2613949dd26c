"""Which layers of a model count, and how the output of each changes when its weights change.

The outputs of a layer with inputs a are linear in its weights and bias (W, b). So if (W, b) changes along (D, d), the
output changes by the output of the same layer for a with weights D and bias d. If δ is the gradient of the loss with
respect to the output, the inner product of δ with this change is the inner product of the loss's gradient with respect
to (W, b) with (D, d). It can be summed row by row.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from metasched.errors import ConfigError, few
from metasched.torch.rewards import Parameters, selected

_MOST_NAMES = 8
_LAYERS = "a linear, convolution, embedding or normalisation layer"
Move: TypeAlias = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""``move(layer, inputs, weight, bias)``: how the outputs change when the weights change by these."""


class Kind(NamedTuple):
    """A kind of layer.

    Attributes:
        move: how its outputs change.
        channels_last: whether channels are the last dimension of its outputs, and not the one after the rows.
        precise: whether it is computed in float32 under autocast.
    """

    move: Move
    channels_last: bool = True
    precise: bool = False


def kind_of(layer: Any) -> Kind | None:
    """The kind of a layer whose rewards can be separated by row. None for any other module."""
    for known, kind in _KINDS.items():
        # A subclass with its own forward may do anything with its weights.
        if isinstance(layer, known) and type(layer).forward is known.forward:
            return None if known is nn.Embedding and (layer.sparse or layer.scale_grad_by_freq) else kind
    # Layers of Hugging Face's models, which need not be installed.
    name, weight = type(layer).__name__, getattr(layer, "weight", None)
    if name == "Conv1D" and hasattr(layer, "nf"):
        return Kind(lambda _, inputs, weight, bias: _plus(inputs @ weight, bias))
    if name.endswith("ScaledWordEmbedding") and hasattr(layer, "embed_scale"):
        return Kind(lambda layer, inputs, weight, _: functional.embedding(inputs, weight) * layer.embed_scale)
    if name.endswith("RMSNorm") and isinstance(weight, nn.Parameter) and weight.dim() == 1:
        return Kind(_own_rms_norm, precise=True)
    return None


def part(layer: Any, kind: Kind, inputs: Any, weight: Any, bias: Any, slope: torch.Tensor, kept: int) -> torch.Tensor:
    """A layer's part of the inner products with a direction of its weight and bias (None if it has none).

    ``slope`` is the gradient with respect to the layer's outputs. The first ``kept`` dimensions stay, the others are
    summed.
    """
    dtype = torch.float32 if kind.precise and slope.dtype != torch.float64 else slope.dtype
    bias = None if bias is None else bias.to(dtype)
    if weight is None:
        wide = bias if kind.channels_last else bias.view(-1, *[1] * (slope.dim() - 2))
        return _summed(wide * slope, kept)
    weight = weight.to(dtype)
    if inputs.is_floating_point():
        inputs = inputs.to(dtype)
    if kind.move is _linear and len(weight) > weight.shape[1]:
        # ⟨δ, D a⟩ = ⟨Dᵀδ, a⟩, which is cheaper if there are more outputs than inputs. There are many more if these are
        # the logits of a language model.
        product = _summed(_wide(slope @ weight).mul_(inputs), kept)
        return product if bias is None else product + _summed(slope @ bias, kept)
    return _summed(_wide(kind.move(layer, inputs, weight, bias)).mul_(slope), kept)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """In float16, a product with a scaled gradient could overflow even if the gradient itself does not."""
    return values.float() if values.dtype == torch.float16 else values


def _summed(product: torch.Tensor, kept: int) -> torch.Tensor:
    wide = product.dtype if product.dtype == torch.float64 else torch.float32
    return product.flatten(kept).sum(-1, dtype=wide) if product.dim() > kept else product.to(wide)


def _plus(outputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return outputs if bias is None else outputs + bias


def _linear(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    del layer
    return functional.linear(inputs, weight, bias)


def _convolution(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    outputs: torch.Tensor = layer._conv_forward(inputs, weight, bias)  # it knows about padding
    return outputs


def _embedding(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    del layer, bias
    return functional.embedding(inputs, weight)


def _layer_norm(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    return functional.layer_norm(inputs, layer.normalized_shape, weight, bias, layer.eps)


def _rms_norm(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    del bias
    return functional.rms_norm(inputs, layer.normalized_shape, weight, layer.eps)


def _own_rms_norm(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    """The RMS norm of a language model, whose weights may be offsets from 1."""
    del bias
    small = getattr(layer, "variance_epsilon", getattr(layer, "eps", 1e-6))
    return inputs * torch.rsqrt(inputs.square().mean(-1, keepdim=True) + small) * weight


def _group_norm(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    return functional.group_norm(inputs, layer.num_groups, weight, bias, layer.eps)


def _batch_norm(layer: Any, inputs: Any, weight: Any, bias: Any) -> torch.Tensor:
    kept = not layer.training and layer.running_mean is not None
    mean, variance = (layer.running_mean, layer.running_var) if kept else (None, None)
    return functional.batch_norm(inputs, mean, variance, weight, bias, not kept, 0.0, layer.eps)


_KINDS: dict[Any, Kind] = {
    nn.Linear: Kind(_linear),
    nn.Conv1d: Kind(_convolution, channels_last=False),
    nn.Conv2d: Kind(_convolution, channels_last=False),
    nn.Conv3d: Kind(_convolution, channels_last=False),
    nn.Embedding: Kind(_embedding),
    nn.LayerNorm: Kind(_layer_norm, precise=True),
    nn.RMSNorm: Kind(_rms_norm, precise=True),
    nn.GroupNorm: Kind(_group_norm, channels_last=False, precise=True),
    nn.modules.batchnorm._BatchNorm: Kind(_batch_norm, channels_last=False, precise=True),
}


def module_inside(model: Any) -> Any:
    """The module with the layers, without the wrappers of ``DistributedDataParallel`` and ``torch.compile``."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    while isinstance(model, nn.parallel.DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    spread = any(hasattr(one, "placements") or hasattr(one, "ds_id") for one in model.parameters())
    if spread or any(hasattr(one, "_fsdp_wrapped_module") for one in model.modules()):
        raise ConfigError(
            "the model's parameters are spread over processes (FSDP or DeepSpeed), so no row can be measured; use DDP"
        )
    return model


def counted_layers(model: Any, wanted: Parameters) -> tuple[list[tuple[Any, Kind]], dict[int, str]]:
    """The layers that count, with their kinds, and the names of their parameters that count, by id.

    Warns about requested parameters that belong to no such layer.
    """
    known = [(layer, kind) for layer in model.modules() if (kind := kind_of(layer)) is not None]
    # A parameter that is also in a layer of another kind would count only in part.
    layers_known = {layer for layer, _ in known}
    others_own = {
        id(one) for layer in model.modules() if layer not in layers_known for one in layer._parameters.values()
    }
    if wanted == "last":
        learning = [
            [one for one in weights_of(layer) if one.requires_grad] for layer, kind in known if not kind.precise
        ]
        chosen: list[Any] = next((own for own in reversed(learning) if own), [])
    else:
        chosen = selected(model, wanted)
    ids = {id(one) for one in chosen}
    layers = [(layer, kind) for layer, kind in known if any(id(one) in ids for one in weights_of(layer))]
    counted = ({id(one) for layer, _ in layers for one in weights_of(layer)} & ids) - others_own
    if not counted:
        raise ConfigError(f"no trainable parameter belongs to {_LAYERS}; give a model with such layers")
    names = {id(one): name for name, one in model.named_parameters() if id(one) in ids}
    if others := [name for key, name in names.items() if key not in counted]:
        leave_out(others, f"they do not belong to {_LAYERS}")
    return layers, {key: name for key, name in names.items() if key in counted}


def weights_of(layer: Any) -> list[Any]:
    """The weight and bias of a layer."""
    return [one for name in ("weight", "bias") if (one := layer._parameters.get(name)) is not None]


def leave_out(names: list[str], why: str) -> None:
    """Warn about parameters that do not count in the rewards."""
    warnings.warn(f"rewards of rows leave out {few(names, _MOST_NAMES)}: {why}", stacklevel=3)
