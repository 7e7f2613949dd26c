"""What every victim has imported before it is forked; importing it computes nothing."""

import campaign.loops
import campaign.protocol  # noqa: F401
import metasched.cli
import metasched.comparison.compare
import metasched.experiments.paper
import metasched.report.page
import metasched.runs.train  # noqa: F401
