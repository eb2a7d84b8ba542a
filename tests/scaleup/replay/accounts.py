"""The sums of a plan: every pod once, every node paid for, every limit kept."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from tests.scaleup.replay.context import PlanViolation, ReplayContext
from tonnage.objects import quantities
from tonnage.objects.nodes import Node
from tonnage.scaleup.plan import Plan, ScaleUp

GIB = 2**30
UNLIMITED = 2**60


def of_pods(context: ReplayContext, plan: Plan) -> Iterator[PlanViolation]:
    """Every pod that waits is in exactly one list, and steps and nodes name the same pods."""
    in_steps = Counter(pod for step in plan.steps for pod in step.pods)
    on_nodes = Counter(pod for one in plan.scale_ups for node in one.nodes for pod in node.pods)
    on_nodes.update(fit.pod for step in plan.steps for fit in step.fit_on_existing)
    listed = in_steps + Counter(fit.pod for fit in plan.fit_on_existing)
    listed.update(left.pod for left in plan.not_helped)
    listed.update(wait.pod for wait in plan.waiting if wait.pod in context.waiting)
    for pod in context.waiting:
        if listed[pod] != 1:
            yield _violation("every pod once", pod, f"is listed {listed[pod]} times")
    for pod, count in listed.items():
        if pod not in context.waiting and (pod not in context.optional or count > 1):
            yield _violation("every pod once", pod, "is listed and does not wait")
    for pod in (in_steps - on_nodes) + (on_nodes - in_steps):
        detail = f"in {in_steps[pod]} steps and on {on_nodes[pod]} nodes"
        yield _violation("steps and nodes agree", pod, detail)


def of_nodes(context: ReplayContext, plan: Plan) -> Iterator[PlanViolation]:
    """Steps add up to the purchases, which stay within every limit and above every bound."""
    in_steps: Counter[str] = Counter()
    for number, step in enumerate(plan.steps, 1):
        yield from _step_size(context, plan, number)
        in_steps.update({one.group: one.delta for one in step.scale_ups})
    bought = {one.group: one.delta for one in plan.scale_ups}
    for group in {**in_steps, **bought}:
        if in_steps[group] != bought.get(group, 0):
            detail = f"steps buy {in_steps[group]}, the plan {bought.get(group, 0)}"
            yield _violation("steps add up", group, detail)
    with_kept_room = {one.node for room in plan.kept_rooms for one in room.nodes}
    for one in plan.scale_ups:
        yield from _group_size(context, one, with_kept_room)
    if plan.scale_ups:
        yield from _totals(context, plan)
    yield from _bounds(context, plan)


def room(context: ReplayContext, plan: Plan, group: str) -> int:
    """Nodes of the group that could still be bought after the plan; 0 for a group that may not be.

    An all-or-nothing group has room for all of it or none.
    """
    if not context.may_be_scaled(group):
        return 0
    found = context.groups[group]
    left = found.max_size - found.target
    left -= sum(one.delta for one in plan.scale_ups if one.group == group)
    rooms = [left]
    nodes, cores, memory = _after(context, plan)
    options = context.options
    if options.max_nodes_total:
        rooms.append(options.max_nodes_total - nodes)
    own_cores, own_memory = _size(context.templates[group].node)
    if own_cores:
        rooms.append((options.cores.most - cores) // own_cores)
    if own_memory:
        rooms.append((options.memory.most * GIB - memory) // own_memory)
    if found.all_or_nothing and min(rooms) < left:
        return 0
    return max(min(rooms), 0)


def _step_size(context: ReplayContext, plan: Plan, number: int) -> Iterator[PlanViolation]:
    step = plan.steps[number - 1]
    most = context.options.max_nodes_per_scale_up or UNLIMITED
    size = sum(one.delta for one in step.scale_ups)
    whole = any(
        context.groups[one.group].all_or_nothing
        for one in step.scale_ups
        if one.group in context.groups
    )
    # A group that grows all at once cannot do so in smaller steps.
    if size > most and not whole:
        yield _violation("nodes per step", f"step {number}", f"buys {size}, at most {most} may be")
    if not (step.pods or step.headroom) or any(one.delta < 1 for one in step.scale_ups):
        yield _violation("steps do something", f"step {number}", f"{len(step.pods)} pods")


def _group_size(
    context: ReplayContext, one: ScaleUp, with_kept_room: Collection[str]
) -> Iterator[PlanViolation]:
    if one.delta != len(one.nodes):
        detail = f"buys {one.delta} and lists {len(one.nodes)} nodes"
        yield _violation("steps add up", one.group, detail)
    group = context.groups.get(one.group)
    if group is None or not context.may_be_scaled(one.group):
        yield _violation("groups that may be scaled", one.group, "is unknown, or is not healthy")
        return
    size = group.target + one.delta
    if size > group.max_size:
        yield _violation("group size", one.group, f"grows to {size}, at most {group.max_size}")
    if group.all_or_nothing:
        if size != group.max_size:
            yield _violation("all or nothing", one.group, f"grows to {size} of {group.max_size}")
        return
    for node in one.nodes:
        if not node.pods and node.name not in with_kept_room:
            yield _violation("nodes are needed", node.name, "is bought and stays empty")


def _totals(context: ReplayContext, plan: Plan) -> Iterator[PlanViolation]:
    nodes, cores, memory = _after(context, plan)
    options = context.options
    for rule, found, most in (
        ("nodes in all", nodes, options.max_nodes_total or UNLIMITED),
        ("cores in all", cores, options.cores.most),
        ("memory in all", memory, options.memory.most * GIB),
    ):
        if found > most:
            yield _violation(rule, "plan", f"the cluster grows to {found}, at most {most}")


def _bounds(context: ReplayContext, plan: Plan) -> Iterator[PlanViolation]:
    bought = sum(one.delta for one in plan.scale_ups)
    least = plan.bounds.nodes
    if least > bought:
        yield _violation("bounds", "nodes", f"at least {least} are needed, {bought} are bought")
    gap = (bought - least) / least if least else 0.0
    if abs(plan.bounds.gap - gap) > 1e-3:
        yield _violation("bounds", "gap", f"{plan.bounds.gap}, should be {gap}")
    prices = [
        (one.delta, context.groups[one.group].price_per_hour)
        for one in plan.scale_ups
        if one.group in context.groups
    ]
    cost = sum(count * (price or 0.0) for count, price in prices)
    bound = plan.bounds.cost_per_hour
    if bound is not None and bound > cost + 1e-3:
        yield _violation("bounds", "cost", f"at least {bound} an hour, {cost} is spent")


def _after(context: ReplayContext, plan: Plan) -> tuple[int, int, int]:
    """Nodes, cores and bytes of memory once everything is bought."""
    bought = [
        (context.templates[one.group].node, one.delta)
        for one in plan.scale_ups
        if one.group in context.templates
    ]
    return _sum([*((node, 1) for node in context.starting_nodes), *bought])


def _sum(nodes: Iterable[tuple[Node, int]]) -> tuple[int, int, int]:
    count = cores = memory = 0
    for node, number in nodes:
        own_cores, own_memory = _size(node)
        count += number
        cores += own_cores * number
        memory += own_memory * number
    return count, cores, memory


def _size(node: Node) -> tuple[int, int]:
    capacity = node.status.capacity
    return quantities.value(capacity.get("cpu", 0)), quantities.value(capacity.get("memory", 0))


def _violation(rule: str, subject: str, detail: str) -> PlanViolation:
    return PlanViolation(rule=rule, subject=subject, detail=detail)
