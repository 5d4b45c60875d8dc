"""Values that many examples share."""

TIME = "2026-11-15T09:30:00Z"
LATER = "2026-11-15T09:30:01.250000Z"
DIGEST = "sha256:" + "0f" * 32
UUID4 = "7f1c0a4e-52aa-4a0b-9d3c-1b2f6a7c8d90"
OTHER_UUID4 = "0c9d5d0e-93b1-4f57-8f0e-52a1d3a6b7c8"
UUID7 = "019a8b3c-7d2e-7f10-8a4b-1c2d3e4f5a6b"
KEY_ID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
SIGNATURE = "A" * 85 + "w"
