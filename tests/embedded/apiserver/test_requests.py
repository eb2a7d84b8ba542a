"""What the embedded API answers beyond what our own client asks."""

import pytest

from tests.embedded.apiserver.requests import (
    BUDGETS,
    CONFIG_MAPS,
    CORE,
    MERGE,
    NODES,
    PODS,
    SETS,
    Api,
    owner,
)
from tonnage.clock.virtual import VirtualClock, run
from tonnage.embedded.apiserver.kinds import BUILT_IN
from tonnage.objects import kinds

SLOTS = {"limits": {"attachable-volumes-csi-ebs.csi.aws.com": 1}}
"""What no container may ask for."""


@pytest.fixture
def api() -> Api:
    return Api()


# Lists by node, which the store has an index for.


def test_a_pod_is_listed_by_the_node_it_is_bound_to_until_it_is_gone(api: Api) -> None:
    def on(node: str) -> list[str]:
        return api.names(f"{CORE}/pods", fieldSelector=f"spec.nodeName={node}")

    api.pod("waits")
    api.pod("placed", spec={"nodeName": "n1"})
    before = on(""), on("n1")
    target = {"kind": "Node", "name": "n1"}
    api.good("POST", f"{PODS}/waits/binding", {"metadata": {"name": "waits"}, "target": target})
    api.good("DELETE", f"{PODS}/placed", gracePeriodSeconds="0")

    assert before == (["waits"], ["placed"])
    assert (on(""), on("n1"), on("n2")) == ([], ["waits"], [])


# Kinds and documents.


def test_every_kind_that_tonnage_reads_is_served() -> None:
    served = {(kind.api_version, kind.kind, kind.plural, kind.namespaced) for kind in BUILT_IN}
    wanted = {(row.api_version, row.kind, row.plural, row.namespaced) for row in kinds.ALL}
    assert wanted - served == set()


def test_every_listed_kind_can_be_listed(api: Api) -> None:
    for group in api.get("/apis")["groups"]:
        root = f"/apis/{group['preferredVersion']['groupVersion']}"
        for resource in api.get(root)["resources"]:
            if "/" not in resource["name"]:
                found = api.get(f"{root}/{resource['name']}")
                assert found["kind"] == f"{resource['kind']}List"


@pytest.mark.parametrize(
    ("plural", "field"),
    [
        ("deployments", "strategy"),
        ("statefulsets", "updateStrategy"),
        ("daemonsets", "updateStrategy"),
    ],
)
def test_workloads_roll_unless_they_say_otherwise(api: Api, plural: str, field: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = api.good("POST", path, {"metadata": {"name": "usual"}, "spec": spec})
    assert made["spec"][field]["type"] == "RollingUpdate"
    given = {"metadata": {"name": "own"}, "spec": {**spec, field: {"type": "OnDelete"}}}
    assert api.good("POST", path, given)["spec"][field] == {"type": "OnDelete"}


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_are_answered(api: Api, path: str) -> None:
    assert api.ask("GET", path).body == b"ok"


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/api/v2",
        "/apis/example.com",
        f"{CORE}/things",
        f"{CORE}/namespaces/default/nodes",
        f"{PODS}/p/nonsense",
        f"{PODS}/p/status/deeper",
    ],
)
def test_what_is_nowhere_is_not_found(api: Api, path: str) -> None:
    assert api.refused("GET", path) == (404, "NotFound")


# Refusals.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{CORE}/pods"),
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("POST", f"{CONFIG_MAPS}/one"),
        ("BREW", CONFIG_MAPS),
    ],
)
def test_a_method_that_makes_no_sense_is_not_allowed(api: Api, method: str, path: str) -> None:
    assert api.refused(method, path, {"metadata": {}}) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", CONFIG_MAPS, "text/plain"),
        ("POST", CONFIG_MAPS, "application/xml"),
        ("PATCH", f"{CONFIG_MAPS}/one", "application/json"),
    ],
)
def test_a_body_of_another_type_is_not_supported(
    api: Api, method: str, path: str, content_type: str
) -> None:
    api.create(CONFIG_MAPS, "one")
    refused = api.refused(method, path, {}, content_type=content_type)
    assert refused == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"metadata": []}',
        b'{"metadata": {"name": 7}}',
        b'{"metadata": {"name": "a", "labels": []}}',
        b'{"metadata": {"name": "a", "ownerReferences": [1]}}',
        b'{"metadata": {"name": "a", "namespace": "elsewhere"}}',
        b'{"metadata": {"name": "a", "resourceVersion": "1"}}',
        b'{"kind": "Pod", "metadata": {"name": "a"}}',
        b"[" * 5000,
    ],
)
def test_a_body_that_is_no_such_object_is_a_bad_request(api: Api, body: bytes) -> None:
    assert api.refused("POST", CONFIG_MAPS, body) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        (PODS, {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
        (PODS, {"spec": {"containers": [{"image": "a"}]}}),
        (PODS, {"spec": {"containers": "many"}}),
        (PODS, {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "x"}}}]}}),
        (PODS, {"spec": {"containers": [{"name": "a", "resources": SLOTS}]}}),
        (PODS, {"spec": {"initContainers": [{"name": "a", "resources": SLOTS}]}}),
        (NODES, {"status": {"allocatable": {"cpu": "many"}}}),
        (SETS, {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {}}}),
        (SETS, {"spec": {}}),
        (BUDGETS, {"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        (BUDGETS, {"spec": {"minAvailable": "half"}}),
        (f"{CORE}/namespaces/default/persistentvolumeclaims", {"spec": {}}),
        (CONFIG_MAPS, {"metadata": {"ownerReferences": [{"kind": "Pod"}]}}),
    ],
)
def test_an_object_that_breaks_a_rule_is_invalid(
    api: Api, path: str, obj: dict[str, dict[str, object]]
) -> None:
    meta = {"name": "one", **obj.pop("metadata", {})}
    assert api.refused("POST", path, {"metadata": meta, **obj}) == (422, "Invalid")


def test_a_workload_of_the_wrong_shape_is_refused_in_words(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"a": 1}, "template": []}}
    assert api.refused("POST", path, body) == (422, "Invalid")


def test_a_kind_whose_fields_nobody_knows_is_still_refused_in_words(api: Api) -> None:
    """Tonnage reads no config maps, so nothing has looked at types before their rules do."""
    body = {"metadata": {"name": "one"}, "data": ["a", "b"]}
    assert api.refused("POST", CONFIG_MAPS, body) == (400, "BadRequest")


def test_a_version_the_server_never_had_is_too_large(api: Api) -> None:
    assert api.refused("GET", CONFIG_MAPS, resourceVersion="999999") == (504, "Timeout")


def test_a_made_up_continuation_is_a_bad_request(api: Api) -> None:
    forged = {"limit": "1", "continue": "bm90IG91cnM="}
    assert api.refused("GET", CONFIG_MAPS, **forged) == (400, "BadRequest")


def test_a_continuation_is_forgotten_after_minutes() -> None:
    clock = VirtualClock()

    async def main() -> None:
        api = Api(clock)
        for name in ("a", "b"):
            api.create(CONFIG_MAPS, name)
        token = api.good("GET", CONFIG_MAPS, limit="1")["metadata"]["continue"]
        await clock.sleep(301)
        assert api.refused("GET", CONFIG_MAPS, **{"continue": token}) == (410, "Expired")

    run(main, clock=clock)


# Dry runs.


def test_a_dry_run_answers_as_if_and_does_nothing(api: Api) -> None:
    made = api.create(CONFIG_MAPS, "kept", data={"a": "1"})
    api.good("POST", CONFIG_MAPS, {"metadata": {"name": "new"}}, dryRun="All")
    change = {"data": {"a": "2"}}
    answer = api.good("PATCH", f"{CONFIG_MAPS}/kept", change, content_type=MERGE, dryRun="All")
    api.good("DELETE", f"{CONFIG_MAPS}/kept", dryRun="All")
    assert answer["data"] == {"a": "2"}
    assert api.names(CONFIG_MAPS) == ["kept"]
    assert api.get(f"{CONFIG_MAPS}/kept") == made


def test_a_dry_run_still_refuses_what_would_be_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, "one")
    body = {"metadata": {"name": "one"}}
    assert api.refused("POST", CONFIG_MAPS, body, dryRun="All") == (409, "AlreadyExists")


# Deleting.


def test_deleting_a_collection_takes_what_is_selected(api: Api) -> None:
    api.create(CONFIG_MAPS, "a", metadata={"labels": {"old": "yes"}})
    api.create(CONFIG_MAPS, "b")
    api.good("DELETE", CONFIG_MAPS, labelSelector="old=yes")
    assert api.names(CONFIG_MAPS) == ["b"]


def test_in_the_foreground_the_owner_goes_last(api: Api) -> None:
    boss = api.create(CONFIG_MAPS, "boss")
    held = {"ownerReferences": [owner(boss)], "finalizers": ["example.com/held"]}
    api.create(CONFIG_MAPS, "held", metadata=held)
    api.good("DELETE", f"{CONFIG_MAPS}/boss", propagationPolicy="Foreground")
    assert api.names(CONFIG_MAPS) == ["boss", "held"]
    free = {"metadata": {"finalizers": None}}
    api.good("PATCH", f"{CONFIG_MAPS}/held", free, content_type=MERGE)
    assert api.names(CONFIG_MAPS) == []


def test_orphans_stay_and_own_themselves(api: Api) -> None:
    boss = api.create(CONFIG_MAPS, "boss")
    api.create(CONFIG_MAPS, "left", metadata={"ownerReferences": [owner(boss)]})
    api.good("DELETE", f"{CONFIG_MAPS}/boss", {"propagationPolicy": "Orphan"})
    assert "ownerReferences" not in api.get(f"{CONFIG_MAPS}/left")["metadata"]


def test_a_chain_and_a_diamond_of_owners_go_as_a_whole(api: Api) -> None:
    top = api.create(CONFIG_MAPS, "top")
    left = api.create(CONFIG_MAPS, "left", metadata={"ownerReferences": [owner(top)]})
    right = api.create(CONFIG_MAPS, "right", metadata={"ownerReferences": [owner(top)]})
    both = {"ownerReferences": [owner(left), owner(right)]}
    api.create(CONFIG_MAPS, "bottom", metadata=both)
    api.good("DELETE", f"{CONFIG_MAPS}/top")
    assert api.names(CONFIG_MAPS) == []


def test_an_owner_of_a_kind_that_is_not_served_is_believed_to_be_there(api: Api) -> None:
    stranger = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"}
    api.create(CONFIG_MAPS, "kept", metadata={"ownerReferences": [stranger]})
    assert api.names(CONFIG_MAPS) == ["kept"]


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_some_namespaces_are_there_for_good(api: Api, name: str) -> None:
    assert api.refused("DELETE", f"{CORE}/namespaces/{name}") == (403, "Forbidden")


def test_a_namespace_waits_for_pods_that_kubelets_have_to_end(api: Api) -> None:
    api.create(f"{CORE}/namespaces", "inner")
    pods = f"{CORE}/namespaces/inner/pods"
    api.create(pods, "p", spec={"containers": [{"name": "a"}], "nodeName": "n"})
    api.good("DELETE", f"{CORE}/namespaces/inner")
    assert api.get(f"{CORE}/namespaces/inner")["status"]["phase"] == "Terminating"
    api.good("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
    assert not api.exists(f"{CORE}/namespaces/inner")


def test_the_time_a_pod_is_given_is_written_on_it(api: Api) -> None:
    api.pod("p", spec={"nodeName": "n", "terminationGracePeriodSeconds": 90})
    meta = api.good("DELETE", f"{PODS}/p")["metadata"]
    assert meta["deletionTimestamp"] == "2030-01-01T00:01:30Z"
    assert meta["deletionGracePeriodSeconds"] == 90


# Disruption budgets.


def budget(api: Api, **spec: object) -> None:
    api.create(BUDGETS, "guard", spec={"selector": {"matchLabels": {"app": "db"}}, **spec})


def allowed(api: Api) -> int:
    found: int = api.get(f"{BUDGETS}/guard")["status"]["disruptionsAllowed"]
    return found


def replicas(api: Api, *, wanted: int, running: int) -> None:
    boss = api.stateful_set("db", replicas=wanted)
    meta = {"labels": {"app": "db"}, "ownerReferences": [owner(boss, controller=True)]}
    for number in range(running):
        api.pod(f"db-{number}", ready=True, metadata=meta)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, 2),
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": 2}, 1),
        ({"maxUnavailable": "25%"}, 1),
        ({"maxUnavailable": 0}, 0),
        ({}, 0),
    ],
)
def test_a_budget_counts_against_the_replicas_that_are_wanted(
    api: Api, spec: dict[str, object], expected: int
) -> None:
    replicas(api, wanted=5, running=4)
    budget(api, **spec)
    assert allowed(api) == expected


def test_a_share_of_pods_without_a_controller_is_nothing(api: Api) -> None:
    api.pod("p", ready=True, metadata={"labels": {"app": "db"}})
    budget(api, maxUnavailable=1)
    assert allowed(api) == 0


def test_a_budget_follows_pods_as_they_come_fail_and_go(api: Api) -> None:
    budget(api, minAvailable=1)
    replicas(api, wanted=3, running=3)
    seen = [allowed(api)]
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    api.good("PATCH", f"{PODS}/db-0/status", unready, content_type=MERGE)
    seen.append(allowed(api))
    api.good("PATCH", f"{PODS}/db-1", {"metadata": {"labels": None}}, content_type=MERGE)
    seen.append(allowed(api))
    api.good("DELETE", f"{PODS}/db-2")
    seen.append(allowed(api))
    assert seen == [2, 1, 0, 0]


def test_a_budget_follows_the_scale_of_its_controller(api: Api) -> None:
    replicas(api, wanted=3, running=3)
    budget(api, maxUnavailable=1)
    scale = {"spec": {"replicas": 2}}
    api.good("PATCH", f"{SETS}/db/scale", scale, content_type=MERGE)
    assert allowed(api) == 2


def test_two_budgets_for_one_pod_are_an_error(api: Api) -> None:
    api.pod("p", ready=True, metadata={"labels": {"app": "db"}})
    budget(api, minAvailable=0)
    selector = {"matchLabels": {"app": "db"}}
    api.create(BUDGETS, "another", spec={"minAvailable": 0, "selector": selector})
    assert api.refused("POST", f"{PODS}/p/eviction", {}) == (500, "InternalError")


# Tables.


def test_pods_are_shown_with_what_people_look_for(api: Api) -> None:
    api.pod("p", ready=True, spec={"nodeName": "n"})
    headings, rows = api.table(PODS)
    assert headings[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert rows == [["p", "1/1", "Running", "0", "0s", "<none>", "n", "<none>"]]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"waiting": {"reason": "ContainerCreating"}}, "ContainerCreating"),
        ({"terminated": {"reason": "Completed", "exitCode": 0}}, "Completed"),
        ({"running": {}}, "Pending"),
    ],
)
def test_a_pod_is_shown_with_what_its_container_waits_for(
    api: Api, state: dict[str, object], shown: str
) -> None:
    api.pod("p", spec={"nodeName": "n"})
    container = {"name": "main", "ready": False, "restartCount": 0, "state": state}
    status = {"containerStatuses": [container]}
    api.good("PATCH", f"{PODS}/p/status", {"status": status}, content_type=MERGE)
    assert api.table(PODS)[1][0][2] == shown


def test_published_capacity_is_shown_with_its_class(api: Api) -> None:
    path = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
    api.create(path, "one", storageClassName="local", capacity="40Gi")
    assert api.table(path) == (
        ["Name", "StorageClass", "Capacity", "Age"],
        [["one", "local", "40Gi", "0s"]],
    )


def test_a_kind_without_columns_of_its_own_is_shown_with_its_age(api: Api) -> None:
    api.create(CONFIG_MAPS, "one")
    assert api.table(CONFIG_MAPS) == (["Name", "Age"], [["one", "0s"]])


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(119, "119s"), (121, "2m1s"), (600, "10m"), (10_800, "3h"), (14_460, "4h1m"),
     (90_000, "25h"), (200_000, "2d")],
)  # fmt: skip
def test_an_age_has_as_much_detail_as_is_worth_it(seconds: int, shown: str) -> None:
    clock = VirtualClock()

    async def main() -> None:
        api = Api(clock)
        api.create(CONFIG_MAPS, "one")
        await clock.sleep(seconds)
        assert api.table(CONFIG_MAPS)[1] == [["one", shown]]

    run(main, clock=clock)


def test_every_kind_can_be_shown_as_a_table_even_when_bare(api: Api) -> None:
    for kind in BUILT_IN:
        if kind.plural in ("customresourcedefinitions", "namespaces"):
            continue
        root = f"/apis/{kind.api_version}" if kind.group else CORE
        path = (
            f"{root}/namespaces/default/{kind.plural}"
            if kind.namespaced
            else f"{root}/{kind.plural}"
        )
        if api.ask("POST", path, {"metadata": {"name": "bare"}}).status == 201:
            headings, rows = api.table(path)
            assert all(len(row) == len(headings) for row in rows)


# Other formats.


def test_apply_reads_yaml(api: Api) -> None:
    api.good(
        "PATCH", f"{CONFIG_MAPS}/one", b"data:\n  a: '1'\n",
        content_type="application/apply-patch+yaml", fieldManager="me",
    )  # fmt: skip
    assert api.get(f"{CONFIG_MAPS}/one")["data"] == {"a": "1"}
