"""Why no element can be taken out of the axes of some ops: those without ``couples``."""

from __future__ import annotations

from hybrid.ir import Op

_MOVES = "which elements it reads or writes is told by indices"
_LOOPS = "what its body does with the axis is not followed"
_DRAWS = "what it draws depends on the places of all elements"
_WHOLE = "it computes with the matrix as a whole"
_GRADIENT = "it belongs to a gradient, not to a model that evaluates"
_PASS = "a pass makes it, after a graph is captured"
_NUMBER = "it computes with sizes and numbers"
_WORLD = "it does something to the world"
_RANKS = "other processes have as many"
_LOSS = "it chooses among all classes"

REASONS: dict[str, str] = {
    name: reason
    for reason, names in {
        _MOVES: "scatter scatter_add scatter_along scatter_along_add slice_assign take_along item "
        "item_at pick place distinct tally searchsorted max_pool_places true_indices "
        "repeat_indices",
        _LOOPS: "cond for while checkpoint custom_vjp",
        _DRAWS: "drop drop_again attention_dropped random_bits random_normal random_uniform "
        "random_beta random_gamma random_poisson random_truncated_normal",
        _WHOLE: "cholesky eigh eigvalsh qr qr_complete svd svd_full svdvals cofactors det inv pinv "
        "slogdet solve solve_triangular matmul_integer matmul_integer_nt matmul_grouped "
        "matmul_grouped_integer quantize_rows",
        _GRADIENT: "attention_pull attention_masked_pull attention_dropped_pull channel_norm_pull "
        "layer_norm_pull rms_norm_pull cross_entropy_pull conv_weight resample_spread "
        "avg_pool_spread",
        _PASS: "map map_all map_any map_max map_mean map_min map_prod map_sum matmul_map "
        "matmul_prepared_map conv_map conv_prepared_map conv_blocked_map conv_transpose_map "
        "matmul_sum matmul_prepare matmul_prepared matmul_integer_map matmul_integer_prepared_map "
        "matmul_integer_prepare matmul_integer_prepared conv_prepare conv_prepared conv_blocked "
        "conv_blocked_prepare conv_integer_prepare conv_integer_prepared "
        "conv_integer_map conv_integer_prepared_map",
        _NUMBER: "add_exact subtract_exact multiply_exact quotient c_function index_range "
        "size_value",
        _WORLD: "py_call say stop",
        _RANKS: "all_reduce reduce_to reduce_scatter all_gather all_to_all broadcast barrier send "
        "gather_parameters recv parts_total shard_sums",
        _LOSS: "class_at cross_entropy",
        "its elements are in the author's code": "literal",
    }.items()
    for name in names.split()
}


def reason_of(op: Op) -> str:
    """Why nothing can be taken out of an axis of ``op``."""
    if op.couple_rule is not None or op.elementwise:
        return "what it computes depends on how many there are"
    return REASONS.get(op.name, "nothing is known of its axes")
