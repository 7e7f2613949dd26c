"""metasched: which data source should the next training batch come from?"""
