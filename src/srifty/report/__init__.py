"""What there is to see of a plan or a run → one self-contained HTML page. Pure; needs Jinja2."""

from srifty.report.plan_page import plan_page
from srifty.report.run_page import run_page

__all__ = ["plan_page", "run_page"]
