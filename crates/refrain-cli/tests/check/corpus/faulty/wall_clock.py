import csv, datetime, os

with open(os.environ["REFRAIN_IN_DELAYS"]) as source, open(os.environ["REFRAIN_OUT"], "w", newline="") as target:
    rows = csv.writer(target)
    rows.writerow(["carrier", "delay", "made_at"])
    for row in csv.DictReader(source):
        rows.writerow([row["carrier"], row["delay"], datetime.datetime.now().isoformat()])
