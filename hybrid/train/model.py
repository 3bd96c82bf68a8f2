"""Model: a network, a loss, an optimizer and metrics, trained in few calls of one plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff import no_grad
from hybrid.calls.hybridization import hybridize
from hybrid.core.tree import tree_map
from hybrid.data import DataLoader
from hybrid.data.sampler import SharedBatches
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CallbackError, CheckpointError
from hybrid.ir.interpreter import authors_call
from hybrid.nn.modules.module import Mode, Module
from hybrid.optim.optimizer import Optimizer
from hybrid.random import default_generator
from hybrid.train.arguments import (
    Loading,
    as_input,
    callbacks_of,
    copied,
    of_loader,
    require_count,
    require_sink_size,
)
from hybrid.train.batch_steps import Steps
from hybrid.train.callback import Callback
from hybrid.train.history import History
from hybrid.train.metrics import Metric, named
from hybrid.train.run import Run
from hybrid.train.step_loop import EvaluationLoop, StepLoop
from hybrid.weights import load

VERSION = 1


class Model:
    """What is needed to train ``network`` and to judge it.

    ``loss_fn(output, target)`` gives one number.  Batches are ``(input, target)``, or several
    inputs and then the target.  Without ``loss_fn`` and ``metrics`` all of a batch goes to the
    network, which gives the loss itself.

    ``metrics`` are counted in the plan, too: a list, or a dict of names, of "accuracy", "top5",
    "precision", "recall", "f1", "mse", "mae", of objects such as ``F1(10)`` and
    ``TopKAccuracy(3)``, and of functions of output and target, which are averaged.

    ``clip_norm`` bounds the norm of all gradients together (``hy.optim.clip_grad_norm_``).

    ::

        model = hy.train.Model(net, hy.nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])
        history = model.train(10, loader, callbacks=[hy.train.LossMonitor(every=100)])
        print(model.eval(test)["accuracy"], model.predict(images))
    """

    def __init__(
        self,
        network: Module,
        loss_fn: Callable[..., Tensor] | None = None,
        optimizer: Optimizer | None = None,
        metrics: Any = None,
        *,
        clip_norm: float | None = None,
    ) -> None:
        if not isinstance(network, Module):
            raise ArgumentTypeError(
                f"Model got a {type(network).__name__} as its network", fix="give an nn.Module"
            )
        if loss_fn is not None and not callable(loss_fn):
            raise ArgumentTypeError(
                f"Model got the loss function {loss_fn!r}",
                fix="give a loss such as hy.nn.CrossEntropyLoss(), or a function of output and "
                "target",
            )
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(
                f"Model got a {type(optimizer).__name__} as its optimizer",
                fix="give one of hy.optim, such as hy.optim.Adam(net.parameters())",
            )
        if clip_norm is not None and not clip_norm > 0:
            raise ArgumentError(f"Model got clip_norm={clip_norm!r}", fix="give a number > 0")
        self.optimizer, self.clip_norm = optimizer, clip_norm
        self._steps = Steps(network, loss_fn, named(metrics))
        if "loss" in self.metrics:
            raise ArgumentError(
                'a metric is named "loss"', why="That is the mean loss, which is always there."
            )
        self._loops: list[Any] = []  # of the datasets that were used last
        self._evaluations: list[Any] = []
        self._forward = hybridize(self._predicted, ledger=False)
        self._trains = False

    @property
    def network(self) -> Module:
        """What is trained."""
        return self._steps.network

    @property
    def loss_fn(self) -> Callable[..., Tensor] | None:
        """How wrong an output is; None: the network tells."""
        return self._steps.loss_fn

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is counted, by name."""
        return dict(self._steps.metrics)

    # Training -----------------------------------------------------------------------------------

    @authors_call
    def train(
        self,
        epochs: int,
        dataset: DataLoader | Sequence[Any],
        callbacks: Callback | Iterable[Callback] | None = None,
        dataset_sink_mode: bool = True,
        sink_size: int = -1,
        *,
        valid_dataset: DataLoader | Sequence[Any] | None = None,
        valid_frequency: int = 1,
        resume: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    ) -> History:
        """Train for ``epochs`` passes over ``dataset``, a DataLoader or a list of batches.

        With ``dataset_sink_mode`` an epoch, batches, optimizer and metrics included, is one call of
        one plan; without, each step is.  The bits are the same.  A batch that does not look like
        the first one is a step by itself, of a plan with open axes.  ``sink_size=n`` lets an epoch
        be n steps, which go on in the data where the last ones left off; the data repeat without
        end.

        ``valid_dataset`` is evaluated after every ``valid_frequency``-th epoch, as "val_loss" and
        so on.  ``resume`` is a file of ``Checkpoint`` (or what ``run.state_dict()`` gave): training
        goes on from there up to ``epochs``, as if it had not been interrupted.

        The network is in training mode meanwhile.  Ctrl-C, and errors of data and callbacks, leave
        what the last finished step has written.
        """
        optimizer = self.require_optimizer()
        require_count("epochs", epochs, 0)
        require_count("valid_frequency", valid_frequency, 1)
        require_sink_size(sink_size)
        if not dataset_sink_mode and sink_size != -1:
            raise ArgumentError(
                f"sink_size is {sink_size} without dataset_sink_mode",
                why="It says how many steps run in one call; without sinking each comes back.",
                fix="leave sink_size out, or let dataset_sink_mode be True",
            )
        loop = of_loader(self._loops, dataset, "train", self._loop)
        loop.program.optimizer, loop.program.clip_norm = optimizer, self.clip_norm

        def validate(epoch: int) -> dict[str, float]:
            if epoch % valid_frequency:
                return {}
            found = self.eval(valid_dataset, dataset_sink_mode=dataset_sink_mode)
            return {f"val_{name}": value for name, value in found.items()}

        run = Run(
            self,
            loop,
            callbacks_of(callbacks),
            epochs=epochs,
            sinks=dataset_sink_mode,
            sink_size=sink_size,
            validate=None if valid_dataset is None else validate,
        )
        if self._trains:
            raise CallbackError(
                "the model is being trained already",
                why="Steps of both trainings would write the same weights.",
                fix="train it again when train() has returned; callbacks may call eval()",
            )
        self._trains = True
        try:
            if resume is not None:
                run.load_state_dict(resume if isinstance(resume, Mapping) else load(resume))
            with Mode(self.network, True):
                return run.go()
        finally:
            self._trains = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_loops": [], "_evaluations": [], "_trains": False}

    def _loop(self, loader: DataLoader) -> StepLoop:
        return StepLoop(self._steps, self.require_optimizer(), self.clip_norm, loader)

    def require_optimizer(self) -> Optimizer:
        """The optimizer; an error where there is none, or nothing for it to do."""
        if self.optimizer is None:
            raise ArgumentError(
                "the model has no optimizer to train with",
                fix="give Model one, such as hy.optim.Adam(net.parameters())",
            )
        if self.loss_fn is None and self.metrics:
            raise ArgumentError(
                "the model has metrics and no loss function to train by",
                why="Metrics compare outputs with targets; without loss_fn the network gives the "
                "loss, and there are no outputs.",
                fix="give Model a loss_fn",
            )
        return self.optimizer

    # Using --------------------------------------------------------------------------------------

    @authors_call
    def eval(
        self, dataset: DataLoader | Sequence[Any], *, dataset_sink_mode: bool = True
    ) -> dict[str, float]:
        """The mean loss and the metrics over ``dataset``; the network is in evaluation mode."""
        loop = of_loader(self._evaluations, dataset, "eval", self._evaluation)
        with Mode(self.network, False):
            return loop.run(dataset_sink_mode)

    def _evaluation(self, loader: DataLoader) -> EvaluationLoop:
        shared = type(loader.batch_sampler) is SharedBatches
        return EvaluationLoop(self._steps.copied(shared), loader)

    @authors_call
    def predict(self, *inputs: Any) -> Any:
        """The network's output for ``inputs``, in evaluation mode and without gradients.

        A DataLoader in their place gives the outputs of all its batches, one behind the other;
        targets in its batches are left out.
        """
        with Mode(self.network, False), no_grad():
            if len(inputs) != 1 or not isinstance(inputs[0], DataLoader):
                return self._forward(*[as_input(x) for x in inputs])
            found = [self._forward(*self._steps.inputs(batch)) for batch in inputs[0]]
            if not found:
                raise ArgumentError("predict got a loader that gives no batches")
            return tree_map(lambda *parts: ops.concat(parts, axis=0), *found)

    def _predicted(self, *inputs: Any) -> Any:
        return self.network(*inputs)

    # State --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The weights, the optimizer's state, and that of the default random generator."""
        optimizer = None if self.optimizer is None else self.optimizer.state_dict()
        return {
            "version": VERSION,
            "network": self.network.state_dict(),
            "optimizer": copied(optimizer),
            "random": default_generator().state.detach(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict()`` gave: all of it fits and is loaded, or nothing is."""
        if not isinstance(state, Mapping) or state.get("version") != VERSION:
            raise CheckpointError(
                "this is not the state of a Model",
                why=f"That is a dict of version {VERSION} with network, optimizer and random.",
                fix="pass what state_dict() gave, or a file of save() or of Checkpoint",
            )
        with Loading() as loading:
            loading.load(self.network, state["network"])
            if self.optimizer is not None and state["optimizer"] is not None:
                loading.load(self.optimizer, state["optimizer"])
            default_generator().state.assign(state["random"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``state_dict()`` to a file, which is whole or as it was before (``hy.save``)."""
        self._steps.save(os.fsdecode(path), self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what ``save``, or the callback ``Checkpoint``, has written."""
        self.load_state_dict(load(path))
