"""Losses by which a student learns from its teacher: from outputs, and from layers within.

Each gives one number; gradients go to the student alone.
"""

from __future__ import annotations

import math
from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.support.operand_checks import (
    as_tensor,
    normalize_axis,
    require_floating,
    require_number,
)


def distillation_loss(
    student: Any,
    teacher: Any,
    labels: Any = None,
    *,
    temperature: float = 4.0,
    weight: float = 0.9,
    axis: int = -1,
) -> Tensor:
    """How far a student's logits are from a teacher's, and from the labels (Hinton et al. 2015).

    ``weight * temperature^2 * KL(softmax(teacher / temperature), softmax(student / temperature)) +
    (1 - weight) * cross_entropy(student, labels)``, both as means over all rows of logits; without
    ``labels`` it is ``temperature^2 * KL`` alone.  The square makes up for gradients that shrink
    with the temperature, so that ``weight`` means the same at any of them.

    ``student`` and ``teacher`` have one shape, with the classes along ``axis``: ``[batch,
    classes]``, say.  ``labels`` are integers of that shape without the axis, or probabilities of
    the whole shape.  Other shapes raise ShapeError; a temperature that is not above 0, and a weight
    outside [0, 1], ArgumentError.
    """
    require_shares(temperature, weight)
    student, teacher = _pair("distillation_loss", student, teacher)
    axis = normalize_axis("distillation_loss", axis, student.ndim)
    if student.shape != teacher.shape:
        raise ShapeError(
            f"the student gives {student.type}, the teacher {teacher.type}",
            why="Both give a logit for each class, and are compared class by class.",
            fix="let them end with as many classes",
        )
    loss = None
    if labels is None or weight > 0:
        soft = ops.kl_div(
            ops.log_softmax(student / temperature, axis=axis),
            ops.log_softmax(teacher / temperature, axis=axis),
            reduction="none",
            log_target=True,
        )
        loss = ops.mean(ops.sum(soft, axis=axis)) * temperature**2
    if labels is None:
        return loss
    labels = as_tensor(labels)
    classes = student.shape[:axis] + student.shape[axis + 1 :]
    if labels.shape != (student.shape if labels.dtype.is_floating else classes):
        raise ShapeError(
            f"labels are {labels.type} for logits {student.type}",
            why=f"Class numbers have the shape {list(classes)}, probabilities that of the logits.",
            fix="give as many labels as there are rows of logits",
        )
    if weight == 1:
        return loss
    hard = ops.cross_entropy(student, labels, axis=axis) * (1 - weight)
    return hard if loss is None else loss * weight + hard


def hint(student: Any, teacher: Any) -> Tensor:
    """Half the mean of ``(teacher - student)^2`` over all elements (FitNets, Romero et al. 2015).

    Both are outputs of layers, of one shape; ``distill`` puts a learnt map where they differ.
    """
    student, teacher = _alike("hint", student, teacher)
    return ops.mean(ops.square(teacher - student)) / 2


def cosine(student: Any, teacher: Any, *, axis: int = -1) -> Tensor:
    """One less the mean cosine of the angle between vectors along ``axis`` (Sanh et al. 2019).

    Both are outputs of layers, of one shape: only directions count, 0 is the best and 2 the worst.
    """
    student, teacher = _alike("cosine", student, teacher)
    axis = normalize_axis("cosine", axis, student.ndim)
    return 1.0 - ops.mean(ops.cosine_similarity(student, teacher, axis=axis))


def relation(student: Any, teacher: Any, *, heads: int = 1) -> Tensor:
    """How tokens relate to one another, by MiniLM's term (Wang et al. 2020), for any two widths.

    Both are ``[..., tokens, width]``: values of attention, in the paper.  A head has a part x of
    the width, and relates the tokens by ``softmax(x x^T / sqrt(width of x))``; the loss is the mean
    over heads and tokens of KL(teacher, student).  ``heads`` that do not divide both widths, and
    shapes that differ before the width, raise.
    """
    student, teacher = _pair("relation", student, teacher)
    if student.ndim < 2 or student.shape[:-1] != teacher.shape[:-1]:
        raise ShapeError(
            f"relation cannot take {student.type} and {teacher.type}",
            why="Both have the shape [..., tokens, width], with the same tokens.",
            fix="choose layers whose outputs differ in their width alone",
        )
    logs = [_relations(x, heads) for x in (student, teacher)]
    terms = ops.kl_div(*logs, reduction="none", log_target=True)
    return ops.mean(ops.sum(terms, axis=-1))


def _relations(x: Tensor, heads: int) -> Tensor:
    """The logarithms of [..., heads, tokens, tokens] for [..., tokens, width]."""
    width = x.shape[-1]
    if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or width % heads:
        raise ArgumentError(
            f"relation cannot make {heads!r} heads of {x.type}",
            fix="give a number that divides the widths of both student and teacher",
        )
    each = width // heads
    parts = ops.swapaxes(ops.reshape(x, (*x.shape[:-1], heads, each)), -3, -2)
    return ops.log_softmax(parts @ parts.mT / math.sqrt(each), axis=-1)


def require_shares(temperature: Any, weight: Any) -> None:
    """Raise unless ``temperature`` is a number above 0, and ``weight`` one in [0, 1]."""
    require_number("temperature", temperature)
    if temperature == 0:
        raise ArgumentError(
            "temperature is 0", why="Logits are divided by it.", fix="give a number above 0"
        )
    require_number("weight", weight)
    if weight > 1:
        raise ArgumentError(
            f"weight is {weight}",
            why="It is the share of the teacher; that of the labels is the rest.",
            fix="give a number from 0 to 1",
        )


def _pair(name: str, student: Any, teacher: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of the student's dtype; the teacher's takes no part in gradients."""
    student, teacher = as_tensor(student), as_tensor(teacher)
    require_floating(name, student=student.type, teacher=teacher.type)
    return student, ops.astype(ops.stop_gradient(teacher), student.dtype)


def _alike(name: str, student: Any, teacher: Any) -> tuple[Tensor, Tensor]:
    student, teacher = _pair(name, student, teacher)
    if student.shape != teacher.shape:
        raise ShapeError(
            f"{name} cannot take {student.type} and {teacher.type}",
            why="They are compared element by element.",
            fix="map one to the shape of the other, or let distill learn such a map",
        )
    return student, teacher
