"""Verification: draws variants and data, runs them on each arch, compares with the reference.

The package is called ``verification`` because ``tikgen.verify`` is its main function.
"""

from tikgen.pipeline.evidence import Evidence, evidence_for
from tikgen.verification.case import Case, Outcome
from tikgen.verification.check import Trial
from tikgen.verification.report import ArchReport, Failure, Report
from tikgen.verification.run import verify

__all__ = [
    "ArchReport",
    "Case",
    "Evidence",
    "Failure",
    "Outcome",
    "Report",
    "Trial",
    "evidence_for",
    "verify",
]
