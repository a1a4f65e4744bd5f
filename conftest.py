"""For all tests and examples: none of them counts looks in the ledger of whoever runs them."""

import os

os.environ["CERTIFARE_STATE"] = "off"
