#!/usr/bin/env python3
"""A scheduler: puts each target on the cluster type with the fewest sites, but not on one without any."""
import json
import sys

question = json.load(sys.stdin)
inhabited = [c for c in question["clusterTypes"] if c["sites"] > 0]
best = min(inhabited, key=lambda c: (c["sites"], c["name"]))
json.dump(
    {
        "assignments": [
            {"target": t["name"], "clusterType": best["name"], "reason": f"{best['sites']} site"}
            for t in question["targets"]
        ]
    },
    sys.stdout,
)
