"""A linear classifier of texts, trained on a few examples for and against: hashed terms in, a probability out.

Ridge regression on tf-idf vectors in its dual form (one small system of equations, whatever the number of terms),
and Platt's scaling of its leave-one-out predictions to a probability. Deterministic; some array operations a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from crawler.terms import SIZE, Indices, Numbers, hashed

RIDGE: Final = 0.1
"""Weight of the penalty, with vectors of length 1."""
_PLATT_STEPS: Final = 50
_SHORT_TEXT: Final = 6.0
"""Length of a tf-idf vector under which a text is too short to be believed wholly."""


class Classifier:
    """Trained when it is made; `weights` are the terms' own."""

    def __init__(self, examples_for: Sequence[str], examples_against: Sequence[str]) -> None:
        counts = np.stack([_log_counts(text) for text in (*examples_for, *examples_against)])
        held = (counts > 0).sum(axis=0)
        self._idf = np.log((len(counts) + 1) / (held + 1)).astype(np.float32) + np.float32(0.1)
        vectors = _unit(counts * self._idf)
        is_for = np.arange(len(counts)) < len(examples_for)
        alpha, left_out = _ridge(vectors, is_for)
        self.weights: Numbers = (vectors.T @ alpha.astype(np.float32)).astype(np.float32)
        self._slope, self._offset = _platt(left_out, is_for)

    def probability(self, text: str) -> float:
        """That the text is of the topic, before anything is known of how rare the topic is."""
        vector = _log_counts(text) * self._idf
        length = float(np.linalg.norm(vector))
        raw = float(vector @ self.weights) / length if length else 0.0
        return _sigmoid(self._slope * raw + self._offset)

    def opinions(self, numbers: Indices, owner: npt.NDArray[np.intp], texts: int) -> Numbers:
        """For each of many short texts (terms and whose they are), a logit; 0 for what says nothing either way."""
        values = self._idf[numbers]
        sums = np.bincount(owner, weights=self.weights[numbers] * values, minlength=texts)
        lengths = np.sqrt(np.bincount(owner, weights=values * values, minlength=texts))
        return (self._slope * sums / np.maximum(lengths, _SHORT_TEXT)).astype(np.float32)


def _log_counts(text: str) -> Numbers:
    counts = np.bincount(hashed([text]).numbers, minlength=SIZE)
    return np.log1p(counts).astype(np.float32)


def _unit(rows: Numbers) -> Numbers:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return cast(Numbers, rows / np.maximum(lengths, np.float32(1e-9)))


def _ridge(vectors: Numbers, is_for: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Dual weights, and what each example is given when it is left out."""
    wanted = np.where(is_for, 1.0, -1.0)
    share = is_for.mean()
    importance = np.where(is_for, 0.5 / share, 0.5 / (1 - share))
    kernel = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    inverse = np.linalg.inv(kernel + RIDGE * np.diag(1 / importance)).astype(np.float64)
    alpha = inverse @ wanted
    left_out = wanted - alpha / np.diag(inverse)
    return alpha, left_out.astype(np.float64)


def _platt(scores: npt.NDArray[np.float64], is_for: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset of the logistic curve through the scores, by Newton's method, both sides of equal weight."""
    n_for, n_against = int(is_for.sum()), int((~is_for).sum())
    wanted = np.where(is_for, (n_for + 1) / (n_for + 2), 1 / (n_against + 2))
    importance = np.where(is_for, 0.5 / n_for, 0.5 / n_against)
    design = np.stack((scores, np.ones_like(scores)), axis=1)
    line = np.array([2.0, 0.0])
    prior = np.diag((0.01, 0.01))
    for _ in range(_PLATT_STEPS):
        guess = 1 / (1 + np.exp(-np.clip(design @ line, -30, 30)))
        slope = design.T @ (importance * (guess - wanted)) + prior @ (line - (2.0, 0.0))
        curve = (design.T * (importance * guess * (1 - guess))) @ design + prior
        step = np.linalg.solve(curve, slope)
        line = line - step
        if float(np.abs(step).max()) < 1e-9:
            break
    return max(float(line[0]), 0.1), float(line[1])


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-min(max(value, -30.0), 30.0)))
