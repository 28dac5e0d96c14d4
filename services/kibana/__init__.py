"""What the portal's data looks like: charts for Kibana, which the admin shows too.

panels/     one Vega-Lite spec a file, with its query, as Kibana takes it
panel       reads them
charts      draws one on the server, as SVG
dashboards  which data views, saved searches and dashboards there are
objects     all of it as Kibana's saved objects
importing   brings these into a running Kibana
"""
