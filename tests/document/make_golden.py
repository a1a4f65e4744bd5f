"""Write the golden files and the published schema anew: ``python -m tests.document.make_golden``.

Run it only after a deliberate change of the format, and read the difference before committing it.
"""

import json

from certifare.document import schema

from .test_envelopes import DOCS, GOLDEN, golden_documents

if __name__ == "__main__":
    for name, document in golden_documents().items():
        (GOLDEN / name).write_bytes(document.to_bytes())
    (DOCS / "certificate.schema.json").write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")
