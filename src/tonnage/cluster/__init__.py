"""Talking to a Kubernetes API, in modules that are used by name.

    config       where the server is and who we are: kubeconfig, service account
    http         the transport over the network (`transport` is the seam, `auth` the identities)
    client       the verbs, typed (`errors` says how they fail)
    mirror       caches that follow the server (`cache`, `reflector`)
    lease        one leader at a time
    events       telling users what happened

Nothing is imported here: whoever reads only a kubeconfig need not load an HTTP client.
"""
