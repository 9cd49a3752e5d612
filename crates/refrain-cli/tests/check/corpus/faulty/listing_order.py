import os

parts = os.environ["REFRAIN_IN_PARTS"]
with open(os.environ["REFRAIN_OUT"], "w") as target:
    for name in os.listdir(parts):
        with open(os.path.join(parts, name)) as source:
            target.write(source.read())
