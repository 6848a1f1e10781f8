-- The latest decision is looked up at each question: a clock that was put back is found by it. Kalypso's views are made anew with it.
CREATE INDEX gate_decisions_by_time ON gate_decisions (at_ms);
