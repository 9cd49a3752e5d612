-- The tables of this example. Refrain makes none of them: a table is yours, with its types, keys, grants and comments.

CREATE TABLE delays (
  dt date NOT NULL,
  carrier text NOT NULL,
  flight integer NOT NULL,
  tailnum text,
  origin text NOT NULL,
  dest text NOT NULL,
  sched_dep_time integer NOT NULL,
  dep_delay integer,
  arr_delay integer,
  PRIMARY KEY (dt, carrier, flight, origin, sched_dep_time)
) PARTITION BY LIST (dt);

CREATE TABLE carriers (
  carrier text PRIMARY KEY,
  first_day date NOT NULL,
  last_day date NOT NULL
);

CREATE TABLE months (
  month date NOT NULL,
  carrier text NOT NULL,
  flights integer NOT NULL,
  cancelled integer NOT NULL,
  mean_dep_delay numeric(6, 2),
  PRIMARY KEY (month, carrier)
);
