"""Floors of finding: a sample of the questions of `bench/relevance`, asked as the portal asks.

Needs the evaluation data (PLUMBLINE_EVAL_DATA); skipped without it. The whole sets give more: see the bench.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from services.config import Settings
from services.elastic import Elastic, ElasticUser, IndexName, credentials

pytestmark = [pytest.mark.node, pytest.mark.slow]

EVERY = 10
FLOORS = {"cmrc-dev": (0.985, 0.995), "drcd-dev": (0.965, 0.995)}
"""MRR@10 and R@10."""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "bench" / "relevance"
    loader = importlib.machinery.SourceFileLoader("bench_relevance", str(path))
    spec = importlib.util.spec_from_loader("bench_relevance", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_questions_find_the_paragraph_that_answers(node_settings: Settings, bench: ModuleType, name: str) -> None:
    prefix = Path(os.environ.get("PLUMBLINE_EVAL_DATA", "")) / "relevance" / name
    if not prefix.with_name(f"{name}.docs.jsonl").is_file():
        pytest.skip("PLUMBLINE_EVAL_DATA names no folder with the evaluation data")
    questions = bench.read_lines(prefix.with_name(f"{name}.queries.jsonl"))[::EVERY]
    with Elastic(credentials(node_settings, ElasticUser.WRITER), node_settings.index_prefix) as elastic:
        elastic.ensure_indices([IndexName.PAGES])
        bench.index(elastic, bench.read_lines(prefix.with_name(f"{name}.docs.jsonl")))
        figures, _ = bench.measure(elastic, questions, bench.ours)
    mrr10, r10 = FLOORS[name]
    assert figures["mrr10"] >= mrr10 and figures["r10"] >= r10, figures
