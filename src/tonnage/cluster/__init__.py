"""Talking to a Kubernetes API, in modules that are used by name.

    config       where the server is and who we are: service account, `kubeconfig`
    http         the transport over the network (`transport` is the seam, `auth` the identities)
    client       the verbs, typed (`calls` with retries and `backoff`; `errors` says how they fail)
    resources    how kinds are addressed; `records` are kinds that no decision reads
    mirror       caches that follow the server (`cache`, `watch_events`, `rawjson`; `reflector`
                 checks them too)
    lease        one leader at a time
    events       telling users what happened
    portforward  one question to a pod

Nothing is imported here: whoever reads only a kubeconfig need not load an HTTP client.
"""
