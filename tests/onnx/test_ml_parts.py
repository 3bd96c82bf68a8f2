"""ai.onnx.ml: what scikit-learn has learnt, as ONNX Runtime computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

import hybrid as hy
from hybrid.errors import OnnxError
from tests.onnx.small_models import ML, model, node, value
from tests.onnx.test_onnx_module import of_onnxruntime

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
CENTERED = (X - X.mean(axis=0)) / X.std(axis=0)  # kernels of these are sums of small numbers
INT = TensorProto.INT64


def of(op: str, outputs: int = 1, version: int = 3, **attributes: Any):
    """A model of one node; of two outputs the first is labels."""
    names = ["label", "y"] if outputs == 2 else ["y"]
    made = node(op, ["x"], names, domain=ML, **attributes)
    return model(
        [made],
        [value("x", shape=[None, None])],
        [value(name, INT if name == "label" else TensorProto.FLOAT) for name in names],
        ml=version,
    )


def check(
    made: Any, x: np.ndarray = X, rtol: float = 1e-4, atol: float = 1e-5
) -> hy.onnx.OnnxModule:
    """Eagerly and hybridized, as ONNX Runtime has it."""
    module = hy.onnx.load(made)
    wanted = of_onnxruntime(made, x)
    for _ in range(2):
        found = module(hy.asarray(x))
        for got, one in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert got.numpy().dtype == one.dtype
            np.testing.assert_allclose(got.numpy(), one.reshape(got.shape), rtol=rtol, atol=atol)
        module.hybridize()
    return module


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_classifiers(transform: str) -> None:
    learnt = LogisticRegression(max_iter=200).fit(X, Y)
    made = of(
        "LinearClassifier", 2, coefficients=learnt.coef_.reshape(-1).tolist(),
        intercepts=learnt.intercept_.tolist(), classlabels_ints=[10, 20, 30],
        post_transform=transform, multi_class=1,
    )  # fmt: skip
    module = check(made)
    assert len(list(module.parameters())) == 2


def test_a_linear_classifier_of_two_classes() -> None:
    learnt = LogisticRegression(max_iter=200).fit(X[:100], Y[:100])
    both = np.concatenate([-learnt.coef_, learnt.coef_])
    check(
        of(
            "LinearClassifier", 2, coefficients=both.reshape(-1).tolist(),
            intercepts=[*-learnt.intercept_, *learnt.intercept_], classlabels_ints=[0, 1],
            post_transform="LOGISTIC",
        ),
        X[:100],
    )  # fmt: skip


def test_a_linear_regressor_trains() -> None:
    learnt = LinearRegression().fit(X[:, :2], X[:, 2:])
    made = of(
        "LinearRegressor", coefficients=learnt.coef_.reshape(-1).tolist(),
        intercepts=learnt.intercept_.tolist(), targets=2,
    )  # fmt: skip
    module = check(made, X[:, :2])
    optimizer = hy.optim.SGD(module.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = ((module(hy.asarray(X[:, :2])) - 1.0) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def trees_of(trees: list[Any], classes: bool) -> dict[str, Any]:
    """The attributes that describe trees of scikit-learn."""
    found: dict[str, list] = {}

    def add(**row: Any) -> None:
        for name, item in row.items():
            found.setdefault(name, []).append(item)

    word = "class" if classes else "target"
    for number, tree in enumerate(trees):
        for at in range(tree.node_count):
            leaf = tree.children_left[at] < 0
            add(
                nodes_treeids=number, nodes_nodeids=at,
                nodes_featureids=0 if leaf else int(tree.feature[at]),
                nodes_modes="LEAF" if leaf else "BRANCH_LEQ",
                nodes_values=0.0 if leaf else float(tree.threshold[at]),
                nodes_truenodeids=0 if leaf else int(tree.children_left[at]),
                nodes_falsenodeids=0 if leaf else int(tree.children_right[at]),
                nodes_missing_value_tracks_true=at % 2,
            )  # fmt: skip
            if leaf:
                share = tree.value[at].reshape(-1)
                share = share / share.sum() / len(trees) if classes else share / len(trees)
                for target, weight in enumerate(share):
                    add(**{f"{word}_treeids": number, f"{word}_nodeids": at,
                           f"{word}_ids": target, f"{word}_weights": float(weight)})  # fmt: skip
    return found


def test_forests() -> None:
    learnt = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, Y)
    attributes = trees_of([tree.tree_ for tree in learnt.estimators_], True)
    module = check(of("TreeEnsembleClassifier", 2, classlabels_int64s=[5, 6, 7], **attributes))
    label = module(hy.asarray(X))[0].numpy()
    assert (label == learnt.predict(X) + 5).mean() > 0.95  # scikit-learn's limits are float64
    missing = X.copy()
    missing[::3, 2] = np.nan
    check(of("TreeEnsembleClassifier", 2, classlabels_int64s=[5, 6, 7], **attributes), missing)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_of_regression(aggregate: str) -> None:
    learnt = GradientBoostingRegressor(n_estimators=6, random_state=0).fit(X[:, :3], X[:, 3])
    attributes = trees_of([tree.tree_ for tree in learnt.estimators_.reshape(-1)], False)
    made = of(
        "TreeEnsembleRegressor", aggregate_function=aggregate, base_values=[0.25], n_targets=1,
        **attributes,
    )  # fmt: skip
    check(made, X[:, :3])


def test_trees_of_two_classes_that_speak_of_one() -> None:
    learnt = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, (Y == 1).astype(int))
    attributes = trees_of([learnt.tree_], True)
    keep = [at for at, number in enumerate(attributes["class_ids"]) if number == 1]
    for name in ("class_ids", "class_treeids", "class_nodeids", "class_weights"):
        attributes[name] = [attributes[name][at] for at in keep]
    attributes["class_ids"] = [0] * len(keep)
    check(of("TreeEnsembleClassifier", 2, classlabels_int64s=[0, 1], **attributes))


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_support_vector_classifiers(classes: int, kernel: str, probability: bool) -> None:
    keep = classes > Y
    learnt = SVC(kernel=kernel, gamma=0.1, coef0=0.5, probability=probability, random_state=0)
    learnt.fit(CENTERED[keep], Y[keep])
    attributes: dict[str, Any] = {}
    if probability:
        attributes = {"prob_a": learnt.probA_.tolist(), "prob_b": learnt.probB_.tolist()}
    made = of(
        "SVMClassifier", 2, classlabels_ints=list(range(classes)),
        coefficients=learnt.dual_coef_.reshape(-1).tolist(), kernel_params=[0.1, 0.5, 3.0],
        kernel_type=kernel.upper(), rho=learnt.intercept_.tolist(),
        support_vectors=learnt.support_vectors_.reshape(-1).tolist(),
        vectors_per_class=learnt.n_support_.tolist(), **attributes,
    )  # fmt: skip
    check(made, CENTERED[keep], rtol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressors(kernel: str, one_class: int) -> None:
    options = {"kernel": kernel, "gamma": 0.1, "coef0": 0.5}
    learnt = (OneClassSVM if one_class else SVR)(**options).fit(CENTERED, Y)
    made = of(
        "SVMRegressor", coefficients=learnt.dual_coef_.reshape(-1).tolist(),
        kernel_params=[0.1, 0.5, 3.0], kernel_type=kernel.upper(), one_class=one_class,
        rho=learnt.intercept_.tolist(), n_supports=len(learnt.support_vectors_),
        support_vectors=learnt.support_vectors_.reshape(-1).tolist(),
    )  # fmt: skip
    module = hy.onnx.load(made)
    wanted = (learnt.decision_function if one_class else learnt.predict)(CENTERED)
    away = np.abs(wanted) > 1e-3  # on the border float32 may say either
    wanted = np.sign(wanted) if one_class else wanted
    found = module(hy.asarray(CENTERED)).numpy()[:, 0]
    np.testing.assert_allclose(found[away], wanted[away], rtol=1e-3, atol=1e-4)
    if not one_class:
        check(made, CENTERED, rtol=1e-3, atol=1e-4)


FEATURES = [  # op, attributes
    ("Scaler", {"offset": [1.0, 2.0, 3.0, 0.5], "scale": [0.5, 1.0, 2.0, 3.0]}),
    ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    *[("Normalizer", {"norm": norm}) for norm in ("MAX", "L1", "L2")],
    ("Binarizer", {"threshold": 1.5}),
    ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": 0.2}),
    ("Imputer", {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")}),
]


@pytest.mark.parametrize(("op", "attributes"), FEATURES)
def test_features(op: str, attributes: dict[str, Any]) -> None:
    x = X.copy()
    if op == "Imputer":
        x[::4, 1] = np.nan
    check(of(op, **attributes), x)


def test_label_encoders() -> None:
    made = of(
        "LabelEncoder", keys_floats=[0.2, 1.4, float("nan")], values_floats=[1.0, 2.0, 3.0],
        default_float=-5.0, version=4,
    )  # fmt: skip
    x = np.array([[0.2, 1.4, np.nan, 9.0]], np.float32)
    check(made, x)
    made = model(
        [node("LabelEncoder", ["x"], ["y"], domain=ML, keys_int64s=[3, 1, 2],
              values_int64s=[30, 10, 20])],
        [value("x", INT)], [value("y", INT)], ml=2,
    )  # fmt: skip
    found = hy.onnx.load(made)(hy.asarray([1, 2, 3, 4]))
    assert found.tolist() == [10, 20, 30, -1]


def test_columns_chosen_and_put_together() -> None:
    nodes = [
        node("ArrayFeatureExtractor", ["x", "which"], ["a"], domain=ML),
        node("FeatureVectorizer", ["a", "x"], ["y"], domain=ML, inputdimensions=[2, 3]),
    ]
    made = model(nodes, [value("x", shape=[None, 4])], weights={"which": np.array([3, 0])}, ml=1)
    module = hy.onnx.load(made)
    wanted = np.concatenate([X[:, [3, 0]], X[:, :3]], axis=1)
    for _ in range(2):
        assert np.array_equal(module(hy.asarray(X)).numpy(), wanted)
        module.hybridize()


def test_one_hot_encoders() -> None:
    made = model(
        [node("OneHotEncoder", ["x"], ["y"], domain=ML, cats_int64s=[2, 0])],
        [value("x", INT)], ml=1,
    )  # fmt: skip
    assert hy.onnx.load(made)(hy.asarray([0, 2, 5])).tolist() == [[0, 1], [1, 0], [0, 0]]


def test_what_has_texts_or_dictionaries_is_refused() -> None:
    made = of("LinearClassifier", 2, coefficients=[1.0], classlabels_strings=["a"])
    with pytest.raises(OnnxError) as caught:
        hy.onnx.load(made)
    assert str(caught.value) == (
        "the model: node 'label' (ai.onnx.ml.LinearClassifier): its attributes do not agree: "
        "LinearClassifier has classlabels_strings\n"
        "Tensors hold no texts.\n"
        "Fix: export the model with integer labels."
    )
    with pytest.raises(OnnxError, match="zipmap"):
        hy.onnx.load(of("ZipMap", classlabels_int64s=[1]))


CROOKED = [
    ({"nodes_truenodeids": [0, 0, 0]}, "a tree has a circle"),
    ({"nodes_modes": ["BRANCH_MAYBE", "LEAF", "LEAF"]}, "modes ['BRANCH_MAYBE']"),
    ({"nodes_nodeids": [0, 0, 0]}, "two nodes of one number"),
    ({"nodes_truenodeids": [7, 0, 0]}, "a node 7 of tree 0, which has 0, 1, 2"),
    ({"target_treeids": [0, 4]}, "a node 2 of tree 4, which has none"),
    ({"target_ids": [0, 4]}, "a target 4 of 1"),
    ({"aggregate_function": "MODE"}, "aggregate_function is 'MODE'"),
]


@pytest.mark.parametrize(("wrong", "said"), CROOKED)
def test_crooked_trees(wrong: dict[str, Any], said: str) -> None:
    right = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"], "nodes_values": [1.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0], "n_targets": 1,
    }  # fmt: skip
    assert hy.onnx.load(of("TreeEnsembleRegressor", **right))(hy.asarray([[0.5]])).item() == 1.0
    with pytest.raises(OnnxError) as caught:
        hy.onnx.load(of("TreeEnsembleRegressor", **{**right, **wrong}))
    assert str(caught.value) == (
        "the model: node 'y' (ai.onnx.ml.TreeEnsembleRegressor): its attributes do not agree: "
        + said
    )
