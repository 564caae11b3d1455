"""Which saves of a step may be stored: those of blocks that were computed over right ones. Knows numbers of blocks and of steps only.

That a load has failed is known with its step's output; by then the step, and those that an engine decides ahead, have computed over what was
not there. So workers hold what they have copied for saves until the verdict on its step. In the engine's memory a block stays spoiled until it
is loaded or computed again from its first token, over blocks that are not.
"""
import collections
import dataclasses


@dataclasses.dataclass(slots=True)
class Computed:
    """What a request computes in a step: tokens `first` to `end`, in the blocks of `tables`, a list for each group of layers."""

    by: object  # with request_id, and `right`: how many of its leading blocks were not spoiled, at which version of what is
    tables: list
    first: int
    end: int
    fresh: bool  # its tables are new: nothing is known of their blocks


class Verdicts:
    def __init__(self, block_size, ahead):
        """An engine decides step N only when the output of step N - `ahead` is known."""
        self._block_size, self._ahead = block_size, ahead
        self.decided = self.known = 0        # numbers of steps: the last that was decided, and the last whose verdict there is
        self._void = 0                       # steps up to this one were computed before a reset
        self._pending = collections.deque()  # (step, blocks that it loads, what it computes)
        self._lost, self._new = [], {}       # (the last step that may have lost them, blocks); verdicts that were not taken yet
        self._spoiled, self._version = set(), 0

    def decide(self, loads, computed):
        """A further step, which loads these blocks. Returns its number."""
        self.decided += 1
        self._pending.append((self.decided, loads, computed))
        self._judge(self.decided - self._ahead)
        return self.decided

    def told(self, lost, step=None):
        """A step's output: blocks whose loads have failed on any rank, and the step, if the host tells it."""
        if lost:
            self._lost.append((self.decided if step is None else step, set(lost)))
        if step is not None:
            self._judge(step)

    def take(self):
        """What became known since the last call: for each step the requests whose saves of that step are dropped."""
        new, self._new = self._new, {}
        return new

    def reset(self, blocks):
        """What is in these blocks, and all that was decided up to now, is of other weights."""
        self._void, self._new = self.decided, {}
        self._spoil(blocks)

    def _spoil(self, blocks):
        if not self._spoiled.issuperset(blocks):
            self._spoiled.update(blocks)
            self._spoiled.discard(0)  # it stands for no block
            self._version += 1

    def _judge(self, step):
        while self._pending and self._pending[0][0] <= step:
            self.known, loads, computed = self._pending.popleft()
            if self.known > self._void:
                self._spoiled.difference_update(loads)
            for until, lost in self._lost:
                if self.known <= until:
                    self._spoil(lost)
            self._lost = [one for one in self._lost if one[0] > self.known]
            if self.known > self._void:
                self._new[self.known] = self._spoiled_by(computed) if self._spoiled else frozenset()

    def _spoiled_by(self, computed):
        """The requests of a step that have computed over spoiled blocks."""
        while computed:
            wrong = [one for one in computed if not self._over_right(one)]
            if len(wrong) == len(computed):
                break
            computed = wrong  # they may share blocks that the others compute in this step
        for one in computed:
            self._spoil({block for table in one.tables for block in table[one.first // self._block_size:self._blocks(one.end)]} - {0})
        return frozenset(one.by.request_id for one in computed)

    def _blocks(self, tokens):
        return -(-tokens // self._block_size)

    def _over_right(self, one):
        """Whether no block before those that it computes is spoiled; then these are not, either."""
        version, right = one.by.right
        since, before = right if version == self._version and not one.fresh else 0, self._blocks(one.first)
        if not all(self._spoiled.isdisjoint(table[since:before]) for table in one.tables):
            return False
        for table in one.tables:
            self._spoiled.difference_update(table[before:self._blocks(one.end)])
        one.by.right = self._version, one.end // self._block_size
        return True
