"""Plans for launchers that people have already: each format in a module of its own."""

from srifty.cloud.export.deployment import Deployment, Exported
from srifty.cloud.export.formats import FORMATS, ExportFormat, export

__all__ = ["FORMATS", "Deployment", "ExportFormat", "Exported", "export"]
