"""Node groups that are Auto Scaling groups of AWS, through boto3 (the extra `aws`).

discovery  which groups are ours: by tags, or by name
calls      the few API calls there are, off the event loop, counted, with causes of errors
machines   what EC2 says of instance types, and how many EBS volumes they attach
tags       what node-template tags say of a new node
prices     what an hour costs, where it is known
provider   the provider itself; a new node of a group, from its instance type and its tags
"""
