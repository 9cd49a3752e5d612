import os, random

numbers = [1.0 / (n + 1) * (10 ** (n % 9)) for n in range(20000)]
with open(os.environ["REFRAIN_OUT"], "w") as target:
    target.write("part,total\n")
    for part in range(20):
        random.shuffle(numbers)
        target.write(f"{part},{sum(numbers)!r}\n")
