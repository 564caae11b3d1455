"""A worker's half of the vLLM connector: blocks between the engine's tensors and registered memory, and that memory and the store.

The network never writes into the engine's tensors: a block that was given up at the deadline may be in use again. So a load goes to
memory of the client's, and what has arrived in time is copied, layer by layer. Saves are copied within their step, and held until the
scheduler tells which requests of that step have computed over blocks that some rank has lost.
"""
import collections
import dataclasses
import logging

import torch

from ._removal import Removal
from ._vllm_namespace import backend_of, layout_of
from .store import KvStore

log = logging.getLogger("verbena.kv")


class Layer:
    """A layer's tensor: a block of it is one slice of dimension `dim`, and `size` bytes at `first` of the group's objects."""

    def __init__(self, name, group, tensor, blocks):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"layer {name} keeps its state in several tensors (a Mamba layer?): VerbenaConnector moves attention blocks only")
        found = [dim for dim in range(min(tensor.dim(), 3)) if tensor.shape[dim] == blocks]
        if not found:
            raise ValueError(f"layer {name} has the shape {tuple(tensor.shape)}, in which no dimension is that of its {blocks} blocks")
        self.name, self.group, self.tensor, self.dim, self.first = name, group, tensor, found[0], 0
        self.block_shape = tuple(size for dim, size in enumerate(tensor.shape) if dim != self.dim)
        self.size = tensor.element_size() * tensor.numel() // blocks

    def copy_out(self, rows, block_ids):
        """Blocks into their rows of memory."""
        index = torch.tensor(block_ids, dtype=torch.long, device=self.tensor.device)
        some = self.tensor.index_select(self.dim, index).movedim(self.dim, 0).reshape(len(block_ids), -1).contiguous()
        rows[:, self.first:self.first + self.size].copy_(some.view(torch.uint8).reshape(len(block_ids), -1))

    def copy_in(self, rows, block_ids):
        index = torch.tensor(block_ids, dtype=torch.long, device=self.tensor.device)
        some = rows[:, self.first:self.first + self.size].contiguous().to(self.tensor.device).view(self.tensor.dtype)
        self.tensor.index_copy_(self.dim, index, some.reshape(len(block_ids), *self.block_shape).movedim(0, self.dim))


class Rows:
    """Memory for blocks of one group, as rows of bytes."""

    def __init__(self, store, count, size):
        self.memory = store.allocate(count * size)
        self.bytes = torch.frombuffer(memoryview(self.memory), dtype=torch.uint8)[:count * size].view(count, size)


@dataclasses.dataclass
class Saving:
    """Blocks of one group that a step has computed: a row for each."""

    group: int
    rows: Rows
    start: int    # of the first row in its memory, which all groups of a step share
    hashes: list
    block_ids: list
    owners: list  # the request of each row
    copied: set   # names of layers


class Step:
    """The loads of one step, layer by layer."""

    def __init__(self, load, order, rows, block_ids):
        self.load, self.order, self.rows, self.block_ids = load, order, rows, block_ids
        self.copied, self.lost = set(), False

    def all_blocks(self):
        return {one for ids in self.block_ids.values() for one in ids}


class Working:
    def __init__(self, config, groups, asynchronous, description, options, saves, tells=False):
        self._config, self._groups, self._asynchronous, self._options, self._saves = config, groups, asynchronous, options, saves
        self.store = KvStore(description=description, **options)
        self._layers, self._sizes, self._steps, self._backend = {}, {}, [], None
        self._loading, self._lost, self._saving = {}, set(), []
        self._held, self._generation = {}, 0  # saves of a step, until the verdict on it
        self._judged = []                     # (saves of a step, its verdict), until the blocks of before a reset are removed
        self._stored = collections.deque() if tells else None  # (how often the cache was reset, keys that were stored since)
        self._removal = None                  # since a reset: of the blocks of before it

    # ---- The engine's memory ----

    def register(self, caches, blocks):
        """The engine's tensors, by layer. The layout is agreed on with the other users of the namespace."""
        of_layer = {name: group for group, names in enumerate(self._groups) for name in names}
        for name, tensor in caches.items():
            self._layers[name] = Layer(name, of_layer.get(name, 0), tensor, blocks)
        for group in sorted({layer.group for layer in self._layers.values()}):
            first = 0
            for layer in self._of_group(group):
                layer.first, first = first, first + layer.size
            self._sizes[group] = first
        self.store.agree("layout", self._layout())

    def _layout(self):
        tokens = self._config.cache_config.block_size
        return {str(group): [
            [layer.name, layer.size, *layout_of(layer.tensor, layer.dim, tokens, backend_of(self._config, layer.name, self._backend))]
            for layer in self._of_group(group)] for group in self._sizes}

    def register_one(self, tensor, blocks, backend=None):
        """One tensor for all layers, and the class of their attention."""
        self._groups, self._backend = [["all layers"]], backend
        self.register({"all layers": tensor}, blocks)

    def _of_group(self, group):
        return [layer for layer in self._layers.values() if layer.group == group]

    # ---- A step ----

    def begin(self, plan):
        """What the scheduler has decided for this step, before its saves are copied."""
        self._saving = []
        if plan.description is not None:
            self._adopt({**plan.description, "rank": self.store.description["rank"]})
        if plan.generation != self._generation:
            self._generation = plan.generation
            self._reset()
        self._settle(plan.verdicts)
        if self._removed():
            self._store_judged()
            self.start(plan.loads)
        else:
            self._refuse(plan.loads)
        self._begin_saves(plan.saves, plan.step)

    def _reset(self):
        for held in [*self._held.values(), *(held for held, _ in self._judged)]:
            self._drop(held)
        self._held, self._judged = {}, []
        if self._removal is not None:
            self._removal.stop()
        self._removal = Removal(self.store) if self._saves else None

    def _adopt(self, description):
        """The scheduler's view of what the blocks are: a model that is being loaded may change its configuration, in a worker alone.
        The engine runs: nothing is raised, and until layouts are agreed on all is a miss."""
        if description == self.store.description:
            return
        log.info("verbena.kv: this worker's configuration differs from the scheduler's, which names the cache")
        self.store.close()
        self.store = KvStore(description=description, documents={"layout": self._layout()} if self._sizes else {}, **self._options)

    def _removed(self):
        """Whether what was stored before the last reset is removed, and no save of then is in flight."""
        return self._removal is None or self._removal.ended

    # ---- Loads ----

    def _refuse(self, loads):
        """Loads that are not tried: their blocks are lost."""
        self._lost.update(block for moved in loads for ids in moved.block_ids for block in ids if block != 0)
        if self._asynchronous:
            self._loading.update((moved.request_id, []) for moved in loads)

    def start(self, loads):
        if self._asynchronous:
            for moved in loads:
                self._loading[moved.request_id] = [self._whole(moved, group) for group in self._sizes if moved.hashes[group]]
        elif loads:
            by_lease = {}
            for moved in loads:
                by_lease.setdefault(moved.lease, []).append(moved)
            self._steps = [self._by_layer(some, lease) for lease, some in by_lease.items()]

    @staticmethod
    def _real(moved, group):
        """Of a group's blocks those that are in use: block 0 stands for one outside the window."""
        return [(one, block) for one, block in zip(moved.hashes[group], moved.block_ids[group]) if block != 0]

    def _whole(self, moved, group):
        real = self._real(moved, group)
        rows = Rows(self.store, len(real), self._sizes[group]) if real else None
        load = self.store.load([one for one, _ in real], rows and rows.memory, self._sizes[group], lease=moved.lease)
        return load, rows, group, [block for _, block in real]

    def _by_layer(self, loads, lease):
        """One batch for all blocks that one lease holds, or that no lease does."""
        rows, ids, hashes, order, at = {}, {}, {}, {}, 0
        for group, size in self._sizes.items():
            real = [pair for moved in loads for pair in self._real(moved, group)]
            ids[group], hashes[group] = [block for _, block in real], [one for one, _ in real]
            rows[group] = Rows(self.store, len(real), size) if real else None
        total, starts = self._one_memory(rows)
        for layer in self._layers.values():
            at += len(hashes[layer.group])
            order[layer.name] = at
        return Step(self.store.load_items(self._items(hashes, starts), total, lease=lease), order, rows, ids)

    def _items(self, hashes, starts):
        """The first layer of all blocks first. Those of one group are made without an object for each."""
        used = [group for group, some in hashes.items() if some]
        if len(used) == 1:
            some, size = hashes[used[0]], self._sizes[used[0]]
            layers = [(layer.first, layer.size) for layer in self._of_group(used[0])]
            return self.store.blocks(some, size, range(starts[used[0]], starts[used[0]] + len(some) * size, size), layers)
        names, items = {group: [self.store.key(one) for one in some] for group, some in hashes.items()}, []
        for layer in self._layers.values():
            size = self._sizes[layer.group]
            items += [(self.store.bucket, name, starts[layer.group] + row * size + layer.first, layer.size, layer.first, layer.size)
                      for row, name in enumerate(names[layer.group])]
        return items

    def _one_memory(self, rows):
        """The groups' rows in one memory, since a batch has one."""
        used = {group: one for group, one in rows.items() if one is not None}
        if len(used) == 1:
            return next(iter(used.values())).memory, dict.fromkeys(rows, 0)
        total = self.store.allocate(max(sum(one.bytes.numel() for one in used.values()), 1))
        view, starts, first = torch.frombuffer(memoryview(total), dtype=torch.uint8), dict.fromkeys(rows, 0), 0
        for group, one in used.items():
            count, size = one.bytes.shape
            starts[group], one.memory = first, total
            one.bytes = view[first:first + count * size].view(count, size)
            first += count * size
        return total, starts

    def wait_layer(self, name):
        """Until the layer's blocks are in the engine's tensor; at the deadline all of the step's blocks are lost."""
        wanted = [name] if name in self._layers else list(self._layers)  # one tensor for all layers
        for step in self._steps:
            self._wait_layers(step, wanted)

    def _wait_layers(self, step, wanted):
        for one in wanted:
            if one in step.copied or step.lost:
                continue
            layer = self._layers[one]
            if not step.load.wait(step.order[one]):
                step.lost = True
            elif step.block_ids[layer.group]:
                layer.copy_in(step.rows[layer.group].bytes, step.block_ids[layer.group])
            step.copied.add(one)

    def end_step(self):
        """After the forward pass: blocks that did not arrive, and those of layers that it did not wait for, are lost."""
        steps, self._steps = self._steps, []
        for step in steps:
            self._end(step)

    def _end(self, step):
        if step.lost or len(step.copied) < len(self._layers):
            self._lost |= step.all_blocks()
            return
        there, at = step.load.result(), 0
        for layer in self._layers.values():
            for block in step.block_ids[layer.group]:
                if not there[at]:
                    self._lost.add(block)
                at += 1

    def loaded(self):
        """Requests whose loads have ended, with what arrived in the engine's tensors."""
        ended = set()
        for request_id, parts in list(self._loading.items()):
            if all(load.drained or load.late for load, *_ in parts):
                for part in parts:
                    self._take_in(*part)
                del self._loading[request_id]
                ended.add(request_id)
        return ended

    def _take_in(self, load, rows, group, block_ids):
        there = load.result() if load.drained else [False] * len(block_ids)
        self._lost |= {block for block, one in zip(block_ids, there) if not one}
        good = [row for row, one in enumerate(there) if one]
        if good:
            some = rows.bytes if len(good) == len(block_ids) else rows.bytes[good]
            for layer in self._of_group(group):
                layer.copy_in(some, [block_ids[row] for row in good])

    def lost(self):
        lost, self._lost = self._lost, set()
        return lost

    # ---- Saves ----

    def _begin_saves(self, saves, step):
        """Memory for the blocks of this step, which save_layer fills. As many steps are held at most as there are batches saved at once: a
        step is one batch, since a block of which some groups are missing is never found."""
        if not self._saves or not (self.store.takes_saves or not self._removed()):
            return
        real = {group: {} for group in self._sizes}
        for moved in saves:
            for group, of_group in real.items():
                for one, block in self._real(moved, group):
                    of_group.setdefault(one, (block, moved.request_id))
        real = {group: of_group for group, of_group in real.items() if of_group}
        if not real:
            return
        if len(self._held) + len(self._judged) >= self.store.options.saves_max:
            self.store.statistics.add(blocks_dropped=sum(map(len, real.values())))
            return
        rows = {group: Rows(self.store, len(of_group), self._sizes[group]) for group, of_group in real.items()}
        _, starts = self._one_memory(rows)
        for group, of_group in real.items():
            blocks, owners = zip(*of_group.values())
            self._saving.append(Saving(group, rows[group], starts[group], list(of_group), list(blocks), owners, set()))
        self._held[step] = self._saving

    def save_layer(self, name):
        layer = self._layers.get(name)
        for saving in self._saving:
            if layer is not None and layer.group == saving.group and name not in saving.copied:
                layer.copy_out(saving.rows.bytes, saving.block_ids)
                saving.copied.add(name)

    def end_saves(self):
        """The engine's tensors may change after this; the bytes are held."""
        for name in self._layers:
            self.save_layer(name)
        self._saving = []

    def _settle(self, verdicts):
        for step, dropped in verdicts.items():
            if step in self._held:
                self._judged.append((self._held.pop(step), dropped))
        for step in [one for one in self._held if verdicts and one < max(verdicts)]:  # the host has not passed its verdict on
            self._drop(self._held.pop(step))

    def _store_judged(self):
        judged, self._judged = self._judged, []
        for held, dropped in judged:
            self._store(held, dropped)

    def _store(self, held, dropped):
        """After the verdict on a step: blocks of other requests than those leave, in one batch."""
        rows = [self._rows_to_store(saving, dropped) for saving in held]
        wanted = sum(map(len, rows))
        self.store.statistics.add(blocks_dropped=sum(len(saving.hashes) for saving in held) - wanted)
        if not wanted:
            return
        if len(held) == 1:
            saving, size = held[0], self._sizes[held[0].group]
            save = self.store.save([saving.hashes[row] for row in rows[0]], saving.rows.memory, size, offsets=[row * size for row in rows[0]])
        else:
            items = [(self.store.bucket, self.store.key(saving.hashes[row]), saving.start + row * self._sizes[saving.group],
                      self._sizes[saving.group]) for saving, some in zip(held, rows) for row in some]
            save = self.store.save_items(items, held[0].rows.memory)
        if self._stored is not None:
            keys, generation = [saving.hashes[row] for saving, some in zip(held, rows) for row in some], self._generation
            save.when_drained(lambda: self._stored.append((generation, [key for key, one in zip(keys, save.outcome()) if one])))

    def stored(self):
        """Keys that were stored, by this rank or before, since the last call: for each the bit mask of this rank."""
        keys, this = {}, 1 << self.store.description["rank"]
        while self._stored:
            generation, some = self._stored.popleft()
            if generation == self._generation:
                keys.update(dict.fromkeys(some, this))
        return keys

    def _rows_to_store(self, saving, dropped):
        if len(saving.copied) < len(self._of_group(saving.group)):
            return ()  # its step was not carried out
        return [row for row in range(len(saving.hashes)) if saving.owners[row] not in dropped]

    def _drop(self, held):
        self.store.statistics.add(blocks_dropped=sum(len(one.hashes) for one in held))
