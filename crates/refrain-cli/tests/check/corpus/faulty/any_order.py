import os, random

with open(os.environ["REFRAIN_IN_DELAYS"]) as source, open(os.environ["REFRAIN_OUT"], "w") as target:
    head, *rows = source.readlines()
    rows = rows * 20
    rows = [f"{number}{row[row.index(','):]}" for number, row in enumerate(rows)]
    random.shuffle(rows)
    target.writelines([head, *rows])
